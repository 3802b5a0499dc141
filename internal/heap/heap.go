// Package heap sets how large a small heap grows before it is collected. An agent's live heap has a few MiB, so at the runtime's
// default a busy agent collects ten times a second, which takes an eighth of its processor time.
package heap

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// Room is the size, in bytes, up to which the heap of a busy agent grows before it is collected. A heap of which more than half of
	// that is live is collected as by default: when it has doubled.
	Room = 40 << 20
	// often and seldom are times between two collections: after busyAfter in a row below the one an agent is busy, which a start alone
	// is not, and above the other it is not busy any more.
	often     = 500 * time.Millisecond
	seldom    = 5 * time.Second
	busyAfter = 5
	// usual is the runtime's default for GOGC: the percentage of the live heap by which it grows until it is collected.
	usual = 100
	// least is the size at which the runtime collects a heap at the usual percentage, at the earliest; it grows with the percentage.
	least = 4 << 20
)

// Widen has a heap that is collected often grow to Room first, from now on, until stop is called. An agent that is not busy
// keeps the runtime's default, and its memory with it. It leaves a process alone whose environment sets GOGC or GOMEMLIMIT, and
// takes at most a quarter of a memory limit that was set otherwise.
func Widen() (stop func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	room := int64(Room)
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		room = min(room, limit/4)
	}
	w := &width{room: room, percent: usual, last: time.Now(), stopped: make(chan struct{})}
	w.await()
	return func() { close(w.stopped) }
}

// width is how far the heap is let grow. Its methods are called after one another.
type width struct {
	room    int64
	percent int       // as set
	row     int       // collections in a row that came often
	last    time.Time // of the last collection
	stopped chan struct{}
}

// await has collected called after the next collection: a cleanup of something that nothing refers to. So an idle agent is
// not woken for it.
func (w *width) await() {
	type mark struct{ _ [2]*mark } // a value with pointers is not allocated together with others
	runtime.AddCleanup(&mark{}, (*width).collected, w)
}

// collected adapts the percentage after a collection.
func (w *width) collected() {
	select {
	case <-w.stopped:
		debug.SetGCPercent(usual)
		return
	default:
	}
	now := time.Now()
	if percent := w.next(now.Sub(w.last), readLive()); percent != w.percent {
		debug.SetGCPercent(percent)
		w.percent = percent
	}
	w.last = now
	w.await()
}

// live is what the last collection has found, in bytes.
type live struct {
	heap  int64
	roots int64 // stacks and global variables, of which the heap may grow by the percentage, too
}

func readLive() live {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	read := func(i int) int64 {
		if samples[i].Value.Kind() != metrics.KindUint64 {
			return 0 // another version of Go has no such metric
		}
		return int64(min(samples[i].Value.Uint64(), math.MaxInt64))
	}
	return live{read(0), read(1) + read(2)}
}

// next returns the percentage after a collection that came so long after the one before. To set it stops the program for a moment, so
// small changes are left out.
func (w *width) next(since time.Duration, l live) int {
	if since < often {
		w.row++
	} else {
		w.row = 0
	}
	if since > seldom || w.percent == usual && w.row < busyAfter {
		return usual
	}
	percent := w.toRoom(l)
	if percent > usual && 5*abs(percent-w.percent) < w.percent {
		return w.percent
	}
	return percent
}

// toRoom returns the percentage by which the heap grows to the room, or the usual one where it grows further.
func (w *width) toRoom(l live) int {
	most := 100 * w.room / least // at it, the runtime lets the smallest heap grow to the room
	percent := 100 * (w.room - l.heap) / max(l.heap+l.roots, 1)
	return int(max(min(percent, most), usual))
}

func abs(n int) int { return max(n, -n) }
