package check_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

func TestTrace(t *testing.T) {
	m := newMaker()
	twice(m, proc)
	a := m.try(1, a1, 1, 1, 1)
	for at := 2.0; at < 7; at++ {
		a.report(at, history.Ping).report(at+0.01, history.Pinged, "200")
	}
	m.agent(8, history.Killed, a1)
	m.try(20, a2, 1, 4, 2).report(20, history.Overlap, "1").end(21, "succeeded")
	m.once(3, a1, 2, plain)
	m.broken(5, 30, "network cut")
	m.broken(40, 50, "network reset")
	m.sample(2.5, 1, 1, 4)
	m.Said = append(m.Said, history.Said{At: s(22), Who: a1, ID: 1, Fence: 1, Text: "lease lost:\nanother holds the row"})
	h := m.made()
	got := check.Check(h)
	require.Len(t, got, 1)
	require.Equal(t, `OneChildAtATime: task 1: the process with fence 4 found that of fence 1 alive at 20.000
  task 1: proc "k1" is succeeded, fence 5, attempt 2, in the hot table false, in the archive 1 times
    outcome succeeded, error "", result none
    settled with fence 2 by session 0: attempt 1, of fence 1, run: lost ""
    settled with fence 4 by session 0: attempt 2, of fence 4, run: succeeded ""
       0.100           1    enqueued as "k1": committed
       1.000  a1.1     1/1  start, attempt 1
       2.000  a1.1     1/1  ping
       2.010  a1.1     1/1  pinged: 200
       2.500  store    1/1  lease has 4s left, its session 0s (asked in 0s)
       3.000  a1.1     1/1  ping
       3.010  a1.1     1/1  … 3 more of these
       5.000  a1.1     1/1  ping
       5.000  nemesis       network cut, until 30.000
       5.010  a1.1     1/1  pinged: 200
       6.000  a1.1     1/1  ping
       6.010  a1.1     1/1  pinged: 200
       8.000  a1.1          the agent: killed
      20.000  a2.1     1/4  start, attempt 2
>     20.000  a2.1     1/4  overlap: 1
      21.000  a2.1     1/4  end: succeeded
      22.000  a1.1     1/1  says: lease lost: another holds the row
`, check.Trace(h, got[0]))
}

// TestTraceOfRollback: a trace has states, fences and requests.
func TestTraceOfRollback(t *testing.T) {
	m := newMaker()
	booked(m, book, func(m *maker) {
		m.effect(1, 1)
		m.rolledBack(1, 4, 1)
		m.rolledBack(1, 4, 1)
		rollingBack(m)
	})
	m.Ops[0].Answer = "cancelled"
	h := m.made()
	got := check.Check(h)
	require.Len(t, got, 2)
	require.Equal(t, `RolledBackOnce: task 1: fence 4 undid effect 1, which did not stand any more at 4.500
  task 1: book "k1" is rolled_back, fence 5, attempt 1, in the hot table false, in the archive 1 times
    outcome succeeded, error "", result none
    its way: pending/0 running/1 succeeded/2 rollback_pending/3 rollback_running/4 rolled_back/5
    settled with fence 1 by session 0: attempt 1, of fence 1, run: succeeded ""
    effect 1 by fence 1, 
    rollback of effect 1: effect 2 by fence 4, 
    rollback of effect 1: effect 3 by fence 4, 
       0.100            1    enqueued as "k1": committed
       1.000  a1.1      1/1  start, attempt 1
       1.400  a1.1      1/1  effect
       1.500  a1.1      1/1  end: succeeded
       3.000  operator  1    asks for the rollback of it
       3.010  operator  1    gets the reply to the rollback of it: "cancelled" 
       4.000  a2.1      1/4  rollback: start, attempt 1
       4.400  a2.1      1/4  rollback: effect
>      4.500  a2.1      1/4  rollback: end: succeeded
`, check.Trace(h, got[0]))
}

func TestTraceIsBounded(t *testing.T) {
	m := newMaker()
	m.row(1, proc, "succeeded", 2, 1)
	a := m.try(1, a1, 1, 1, 1)
	for i := range 1000 {
		a.report(float64(i)/100+2, history.Ping, strings.Repeat("x", 1000))
		if i%3 == 0 {
			a.report(float64(i)/100+2, history.Refused)
		}
		m.settled(1, 1, 1, "lost")
		m.effect(1, 1)
	}
	text := check.Trace(m.made(), check.Violation{Invariant: check.FencesRise, IDs: []int64{1, 99}, At: s(5)})
	lines := strings.Split(text, "\n")
	require.Less(t, len(lines), 140)
	for _, l := range lines {
		require.Less(t, len(l), 200, "%q", l)
	}
	require.Contains(t, text, "lines before these")
	require.Contains(t, text, "lines after these")
}
