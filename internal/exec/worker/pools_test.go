package worker

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// TestPoolsOfAConfiguration declares a configuration, and then another: each target and phase has processes of its own, and
// those of the first end.
func TestPoolsOfAConfiguration(t *testing.T) {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	r := command.New(command.Options{Log: log})
	defer r.Close()
	s := NewPools(r, log, Options{})
	defer s.Close()
	declare := func() (*task.Type, *task.Command) {
		c := declared(t, "plays")
		c.Worker.Processes = 1
		other := declared(t, "plays")
		x := &task.Type{Name: "invoice.send", Target: c, Rollback: other, Workers: 4}
		s.Declare([]*task.Type{x, {Name: "plain", Target: &task.Command{}}, {Name: "http", Target: &task.Webhook{}}})
		return x, c
	}
	echo := func(x *task.Type, c *task.Command) task.Outcome {
		l := do("echo").Lease()
		defer l.Close()
		return s.Run(l, x, c, func() {})
	}
	x, c := declare()
	n, _, ok := s.Room("invoice.send", task.Run)
	require.True(t, ok)
	require.Equal(t, 1, n, "a process can be started")
	require.Equal(t, task.Succeeded, echo(x, c).Verdict)
	first := s.named[place{"invoice.send", task.Run}]
	require.Equal(t, 1, first.total)
	require.Zero(t, s.named[place{"invoice.send", task.Rollback}].total)
	for _, none := range []place{{"plain", task.Run}, {"http", task.Run}, {"invoice.send", task.Check}, {"other", task.Run}} {
		_, _, ok := s.Room(none.typ, none.phase)
		require.False(t, ok, none)
	}

	again, d := declare()
	first.running.Wait()
	require.Zero(t, first.total, "its process has ended")
	o := echo(x, c)
	require.Equal(t, task.Drained, o.Verdict, "of a configuration that is not there any more nothing is started")
	require.True(t, o.NeverStarted)
	require.Equal(t, task.Succeeded, echo(again, d).Verdict)
	declare()
	require.NotContains(t, s.all, target{c, task.Run}, "the first is forgotten")
	require.Equal(t, task.Drained, echo(x, c).Verdict, "and still nothing is started of it")
}

// TestRoom is how many attempts a pool wants to have claimed.
func TestRoom(t *testing.T) {
	p := &Pool{typ: &task.Type{Workers: 8}, command: &task.Command{Worker: &task.Worker{Processes: 3}}}
	room := func() int { n, _ := p.Room(); return n }
	require.Equal(t, min(3, startsAtOnce()), room(), "so many can be started at once")
	p.total, p.booting, p.waiting = 3, 3, 3
	require.Zero(t, room(), "those that wait get what is being started")
	p.waiting = 0
	require.Zero(t, room(), "to be ready may take long")
	p.booting, p.idle = 2, make([]*worker, 1)
	require.Equal(t, 1, room())
	p.booting, p.idle = 0, make([]*worker, 2)
	require.Equal(t, 2, room())
	p.idle = nil
	require.Zero(t, room(), "all run attempts")
	p.typ.Workers = 3
	require.Equal(t, noBound, room(), "the type's slots bound it, and rows can be claimed ahead")
	p.total, p.took = 1, time.Minute
	require.Equal(t, 2, room(), "no row waits for a process that is slow to start")
}

// TestDrain ends processes that run nothing at once, and another after its attempt.
func TestDrain(t *testing.T) {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	r := command.New(command.Options{Log: log})
	defer r.Close()
	s := NewPools(r, log, Options{})
	defer s.Close()
	idle, busy := declared(t, "plays"), declared(t, "plays")
	busy.StopGrace = time.Second
	types := []*task.Type{{Name: "idle", Target: idle, Workers: 1}, {Name: "busy", Target: busy, Workers: 1}}
	s.Declare(types)
	waits := make(chan struct{}) // closed once the one that is late waits for its signal
	start := func(x *task.Type, c *task.Command, what string) (*lease.Lease, <-chan task.Outcome) {
		l, reached, ended := do(what).Lease(), make(chan struct{}), make(chan task.Outcome, 1)
		l.OnPing(func(store.Ping, store.PingReply) { close(waits) })
		t.Cleanup(l.Close)
		go func() { ended <- s.Run(l, x, c, func() { close(reached) }) }()
		<-reached
		return l, ended
	}
	_, ended := start(types[0], idle, "echo")
	require.Equal(t, task.Succeeded, (<-ended).Verdict)
	l, ended := start(types[1], busy, "late result")
	s.End()
	p := s.named[place{"idle", task.Run}]
	p.running.Wait()
	require.Zero(t, p.total)
	select {
	case o := <-ended:
		require.Fail(t, "it was ended", o)
	default:
	}
	<-waits
	l.Stop(&lease.Cause{Verdict: task.Drained, Reason: "the agent was stopped"})
	require.JSONEq(t, `"in time"`, string((<-ended).Result))
}
