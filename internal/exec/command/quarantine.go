package command

import (
	"time"

	"github.com/leasehold/leasehold/internal/lease"
)

// stuckEvery is how often what does not die is killed again.
const stuckEvery = time.Second

// quarantine keeps what belongs to an attempt whose processes SIGKILL did not end, until it has: its directory, its
// cgroup, and by the channel that it returns, its slot. then is called at last. The processes are killed again and again,
// also by the guardian process once the lease is over, and when the agent is gone.
func (r *Runner) quarantine(l *lease.Lease, p *process, stopped bool, then func()) <-chan struct{} {
	row, began := l.Task(), time.Now()
	r.log.Error("processes did not die of SIGKILL; their slot stays free until they are gone",
		"task", row.ID, "type", row.Type, "fence", row.Fence, "group", p.pid)
	gone := make(chan struct{})
	r.shared.stuck.Go(func() {
		again := time.NewTicker(stuckEvery)
		defer again.Stop()
		for !p.kill(lastLook) || stopped && !p.hold.clear(stuckEvery) {
			select {
			case <-again.C:
			case <-r.closing:
				return
			}
		}
		r.log.Info("processes that did not die of SIGKILL are gone", "task", row.ID, "type", row.Type, "fence", row.Fence,
			"group", p.pid, "after", time.Since(began).Round(time.Second))
		then()
		close(gone)
	})
	return gone
}
