package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// A message alone is kept, and renews nothing.
func TestSetMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &task.Policy{Timeout: time.Minute, Heartbeat: time.Second, Stop: 2 * time.Second}
		l := New(context.Background(), &task.Task{ID: 1, State: task.StateRunning, ClaimedAt: time.Now()}, p, RunClock(), RunClock().Now(), nil)
		defer l.Close()
		l.warden = silent{}
		l.Start()
		time.Sleep(900 * time.Millisecond)
		l.SetMessage("page 40")
		l.SetMessage("")
		require.Equal(t, "page 40", l.Report().Message)
		time.Sleep(200 * time.Millisecond)
		require.NotNil(t, l.Cause(), "a message is no ping")
		require.Equal(t, task.Stalled, l.Cause().Verdict)
		l.SetMessage("cleaning up")
		require.Equal(t, "cleaning up", l.Report().Message, "what stops may say so")
		l.Close()
		l.SetMessage("late")
		require.Equal(t, "cleaning up", l.Report().Message)
	})
}

// silent is a warden that knows nothing of pings elsewhere, and writes nothing.
type silent struct{}

func (silent) count(string, store.PingReply) {}
func (silent) write(*Lease, time.Duration)   {}

func (silent) doubt(l *Lease) { l.settleDoubt() }
