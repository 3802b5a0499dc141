package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const mib = 1 << 20

func TestNext(t *testing.T) {
	for _, c := range []struct {
		name    string
		room    int64
		percent int
		row     int
		since   time.Duration
		live    live
		want    int
	}{
		{"collected often", 40 * mib, 100, busyAfter - 1, often / 2, live{5 * mib, 2 * mib}, 500},
		{"collected often for a moment", 40 * mib, 100, busyAfter - 2, often / 2, live{5 * mib, 2 * mib}, 100},
		{"collected now and then", 40 * mib, 100, busyAfter - 1, 2 * often, live{5 * mib, 2 * mib}, 100},
		{"busy as before", 40 * mib, 500, 0, 2 * often, live{5 * mib, 2 * mib}, 500},
		{"a little more is live", 40 * mib, 500, 0, often, live{5*mib + 100_000, 2 * mib}, 500},
		{"much more is live", 40 * mib, 500, 0, often, live{10 * mib, 4 * mib}, 214},
		{"half of the room is live", 40 * mib, 500, 0, often / 2, live{20 * mib, 2 * mib}, 100},
		{"more than the room is live", 40 * mib, 500, 0, often / 2, live{100 * mib, 2 * mib}, 100},
		{"nearly nothing is live", 40 * mib, 100, busyAfter - 1, often / 2, live{1 * mib, 0}, 1000},
		{"not busy any more", 40 * mib, 500, 0, 2 * seldom, live{5 * mib, 2 * mib}, 100},
		{"little room", 8 * mib, 100, busyAfter - 1, often / 2, live{5 * mib, 1 * mib}, 100},
		{"no room", 0, 100, busyAfter - 1, often / 2, live{5 * mib, 1 * mib}, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &width{room: c.room, percent: c.percent, row: c.row}
			require.Equal(t, c.want, w.next(c.since, c.live))
		})
	}
}

// percentage is what the runtime goes by.
func percentage() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}

// A program that makes garbage gets the room, and gives it back once it makes none.
func TestWiden(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	debug.SetGCPercent(usual)
	stop := Widen()
	var last []byte
	makeGarbage := func() bool {
		for range 1000 {
			last = make([]byte, 10_000)
		}
		return percentage() > usual
	}
	require.Eventually(t, makeGarbage, 10*time.Second, time.Millisecond, "the heap is collected often, and never grows")
	var goal = []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	require.LessOrEqual(t, goal[0].Value.Uint64(), uint64(Room+Room/4))
	stop()
	require.Eventually(t, func() bool {
		runtime.GC()
		return percentage() == usual
	}, 10*time.Second, time.Millisecond, "it stays wide once that is over")
	runtime.KeepAlive(last)
}

func TestWidenLeavesAUsersChoice(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv("GOGC", "")
		t.Setenv("GOMEMLIMIT", "")
		t.Setenv(name, "100")
		debug.SetGCPercent(usual)
		stop := Widen()
		defer stop()
		for range 5 { // cleanups of each collection have run when the last of them has
			over := make(chan struct{})
			runtime.AddCleanup(&struct{ _ [2]*int }{}, func(over chan struct{}) { close(over) }, over)
			runtime.GC()
			<-over
		}
		require.Equal(t, usual, percentage(), name)
	}
}
