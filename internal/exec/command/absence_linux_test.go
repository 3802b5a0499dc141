package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// After the session was absent, or nearly, commands run as before: no cgroup is used again in which the guardian process
// may have killed meanwhile.
func TestCommandsAfterAbsence(t *testing.T) {
	const slots = 4
	r, _ := guarded(t)
	defer r.Close()
	clock := lease.BootClock()
	round := func() (outcomes []task.Outcome) {
		ends := make(chan task.Outcome, slots)
		for range slots {
			go func() {
				l := exectest.Attempt{}.Lease()
				defer l.Close()
				c := shell("sleep 0.1")
				ends <- r.Run(l, declared(c), c, func() {})
			}()
		}
		for range slots {
			outcomes = append(outcomes, <-ends)
		}
		return outcomes
	}
	for range 2 {
		r.Presence(clock.Now() + time.Hour)
		for _, o := range round() {
			require.Equal(t, task.Outcome{Verdict: task.Succeeded}, o)
		}
		r.Presence(clock.Now() + lease.KillMargin + 100*time.Millisecond) // the last write of presence before the store is lost
		<-time.After(300 * time.Millisecond)
	}
	r.Presence(clock.Now() + time.Hour) // it is back
	for range 3 {
		for _, o := range round() {
			require.Equal(t, task.Outcome{Verdict: task.Succeeded}, o)
		}
	}
}
