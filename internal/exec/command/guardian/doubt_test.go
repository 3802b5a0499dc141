package guardian

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/lease"
)

// The agent knows when its guardian process may have killed in every cgroup: when presence was prolonged too late, and
// not when it was in time.
func TestLatePresenceIsKilledAll(t *testing.T) {
	var killed atomic.Int32
	s := newScene(t, func(o *Options) { o.Killed = func() { killed.Add(1) } })
	p := s.sleeper()
	for range 5 {
		s.Presence(s.clock.Now() + lease.KillMargin + 5*time.Second)
	}
	require.Zero(t, killed.Load())
	require.False(t, s.Overdue(p.number))

	s.Presence(s.clock.Now() + lease.KillMargin + unsure/2)
	require.Zero(t, killed.Load(), "what was said before was in time")
	s.Presence(s.clock.Now() + time.Hour)
	require.EqualValues(t, 1, killed.Load(), "so near to its end that the two clocks may differ about it")
	require.True(t, s.Overdue(p.number), "whatever becomes of its lease")
}

// While the guardian process has not answered the presence that came late, it may still be killing: what is started
// meanwhile may be hit, and what was made meanwhile is not used again either.
func TestDoubtLastsUntilTheAnswer(t *testing.T) {
	var killed atomic.Int32
	s := newScene(t, func(o *Options) { o.Killed = func() { killed.Add(1) } })
	before := s.sleeper()
	s.Presence(s.clock.Now() + time.Hour)
	until(t, "it has answered", func() bool { return s.answered() })
	require.NoError(t, unix.Kill(s.PID(), unix.SIGSTOP))
	s.Presence(s.clock.Now() + lease.KillMargin)
	s.Presence(s.clock.Now() + time.Hour)
	require.EqualValues(t, 1, killed.Load())
	meanwhile := s.sleeper()
	require.EqualValues(t, 1, killed.Load(), "it has not answered")
	require.True(t, s.Over(before.number))
	require.NoError(t, unix.Kill(s.PID(), unix.SIGCONT))
	until(t, "it has answered", func() bool { return s.answered() })
	after := s.sleeper()
	require.EqualValues(t, 2, killed.Load(), "what was made meanwhile")
	require.True(t, s.Overdue(meanwhile.number), "it stays in doubt")
	require.False(t, s.Overdue(after.number))
	require.False(t, s.Over(after.number))
}

// What a guardian process that is gone may have done to its end is not forgotten with it.
func TestDoubtOutlivesTheGuardian(t *testing.T) {
	var killed atomic.Int32
	s := newScene(t, func(o *Options) { o.Killed = func() { killed.Add(1) } })
	s.sleeper() // it is there
	first := s.PID()
	require.NoError(t, unix.Kill(first, unix.SIGSTOP))
	s.Presence(s.clock.Now() + lease.KillMargin)
	s.Presence(s.clock.Now() + time.Hour)
	meanwhile := s.sleeper()
	require.EqualValues(t, 1, killed.Load())
	require.NoError(t, unix.Kill(first, unix.SIGKILL))
	until(t, "there is another", func() bool { pid := s.PID(); return pid != 0 && pid != first })
	require.EqualValues(t, 2, killed.Load())
	require.True(t, s.Overdue(meanwhile.number))
	require.False(t, s.Overdue(s.sleeper().number))
}

// answered reports whether the guardian process has answered all presences.
func (s *scene) answered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child != nil && s.child.answered.Load() >= s.child.sent
}
