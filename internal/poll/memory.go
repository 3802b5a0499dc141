package poll

import (
	"runtime/debug"
	"sync"
	"time"
)

// What large rows leave behind is returned to the system soon, rather than when the next collection happens to come,
// which in an idle agent is minutes later, and with a heap twice as large as the largest row left to grow into.
const (
	largeRows = 4 << 20  // bytes of documents: below, to collect would cost more than it frees
	hugeRow   = 16 << 20 // bytes of one row's documents that are worth a collection of their own
)

// freeAfter is when memory is returned after the last large row, when it has been settled. Once more than once, for what is still referred
// to at first: a pool drops what it keeps at the second collection, and a connection what it has sent as it sends or reads again.
var freeAfter = [...]time.Duration{time.Second, 15 * time.Second} //nolint:gochecknoglobals // never changes

// memory remembers large rows until what they took has been returned.
type memory struct {
	free func() // collects, and returns memory to the system

	mu    sync.Mutex
	last  time.Duration // local time of the last large row
	freed int           // how often memory was returned since; len(freeAfter): for the last time
}

func newMemory() *memory { return &memory{free: debug.FreeOSMemory, freed: len(freeAfter)} }

// note notes a large row at a time.
func (m *memory) note(now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.freed = now, 0
}

// claimed notes a claim of so many bytes. What reading it has left behind is of the order of the rows themselves, several
// times over.
func (m *memory) claimed(bytes int, now time.Duration) {
	if bytes >= largeRows {
		m.note(now)
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
		m.note(now)
	}
	return bytes >= largeRows
}

// turn frees what large rows have left behind, once they are over; in says when to ask again, 0: not for their sake.
func (m *memory) turn(now time.Duration) (in time.Duration) {
	in, due := m.next(now)
	if due {
		m.free()
	}
	return in
}

// next reports whether memory is to be returned now, and says in how much time the next turn is; 0: there is none.
func (m *memory) next(now time.Duration) (in time.Duration, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.freed < len(freeAfter) {
		if in = m.last + freeAfter[m.freed] - now; in > 0 {
			return in, due
		}
		m.freed, due = m.freed+1, true
	}
	return 0, due
}
