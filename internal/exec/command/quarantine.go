package command

import "time"

// stuckEvery is how often what does not die is killed again.
const stuckEvery = time.Second

// killUntilGone kills the group again and again, and all: what has left it, too; then, once nothing is left, it calls
// then. It does not wait. The guardian process does the same once the window is over, and when the agent is gone.
func (p *process) killUntilGone(all bool, then func()) {
	p.shared.stuck.Go(func() {
		again := time.NewTicker(stuckEvery)
		defer again.Stop()
		for !p.kill(lastLook) || all && !p.hold.clear(stuckEvery) {
			select {
			case <-again.C:
			case <-p.closing:
				return
			}
		}
		then()
	})
}
