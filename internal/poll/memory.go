package poll

import (
	"runtime/debug"
	"sync/atomic"
	"time"
)

// What large rows leave behind is returned to the system soon, rather than when the next collection happens to come,
// which in an idle agent is minutes later, and with a heap twice as large as the largest row left to grow into.
const (
	largeRows = 4 << 20     // bytes of documents: below, to collect would cost more than it frees
	hugeRow   = 16 << 20    // bytes of one row's documents that are worth a collection of their own
	freeAfter = time.Second // after the last large row, when it has been settled
)

// memory remembers large rows until what they took has been returned.
type memory struct {
	last atomic.Int64 // local time of the last large row; 0: all has been returned
	free func()       // collects, and returns memory to the system
}

func newMemory() *memory { return &memory{free: debug.FreeOSMemory} }

// claimed notes a claim of so many bytes. What reading it has left behind is of the order of the rows themselves, several
// times over.
func (m *memory) claimed(bytes int, now time.Duration) {
	if bytes >= largeRows {
		m.last.Store(max(int64(now), 1))
		m.free()
	}
}

// sent frees what an attempt with so many bytes has left behind, before its outcome is settled: a store may copy the row for that, and
// what was sent is as large.
func (m *memory) sent(bytes int) {
	if bytes >= hugeRow {
		m.free()
	}
}

// ended notes the end of an attempt with so many bytes, and later that it has been settled, however late: only then nothing refers
// to them. It reports whether they are many.
func (m *memory) ended(bytes int, now time.Duration) bool {
	if bytes >= largeRows {
		m.last.Store(max(int64(now), 1))
	}
	return bytes >= largeRows
}

// turn frees what large rows have left behind, once they are over; in says when to ask again, 0: not for their sake.
func (m *memory) turn(now time.Duration) (in time.Duration) {
	last := m.last.Load()
	if last == 0 {
		return 0
	}
	if left := time.Duration(last) + freeAfter - now; left > 0 {
		return left
	}
	if m.last.CompareAndSwap(last, 0) {
		m.free()
	}
	return 0
}
