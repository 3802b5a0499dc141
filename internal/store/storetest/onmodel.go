package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store/storetest/model"
	"github.com/leasehold/leasehold/internal/task"
)

// OnModel is the harness of the model: its clock stands still but for a tick at every reading, and Advance.
type OnModel struct {
	*model.Store
	clock *clock
	// Self is what Twin returns: the model has no connections. NewOnModel sets it to the harness itself; whoever
	// embeds it sets it to the outer one.
	Self Harness
}

// NewOnModel is the harness of an empty model.
func NewOnModel() *OnModel {
	c := &clock{now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	h := &OnModel{Store: model.New(c.read), clock: c}
	h.Self = h
	return h
}

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// read gives each reader a time of its own, as a real clock does: what was written later is due later.
func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Microsecond)
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Insert adds rows and fails t where it cannot.
func (h *OnModel) Insert(t testing.TB, r ...ops.Request) []task.ID {
	t.Helper()
	ids, err := h.Store.Insert(t.Context(), r...)
	require.NoError(t, err)
	return ids
}

// EnqueueSQL is Enqueue: the model speaks no SQL.
func (h *OnModel) EnqueueSQL(t testing.TB, r ops.Request) task.ID {
	t.Helper()
	id, _, err := h.Enqueue(t.Context(), r)
	require.NoError(t, err)
	return id
}

// Now reads the clock.
func (h *OnModel) Now() time.Time { return h.clock.read() }

// Advance moves the clock.
func (h *OnModel) Advance(_ testing.TB, d time.Duration) { h.clock.advance(d) }

// Fail sets the hook of the failpoints.
func (h *OnModel) Fail(hook func(point string) error) { h.Store.Fail = hook }

// LockRow keeps the row.
func (h *OnModel) LockRow(_ testing.TB, id task.ID) (release func()) { return h.Keep(id) }

// Begin begins a transaction of an application's.
func (h *OnModel) Begin(testing.TB) Application { return h.Store.Begin() }

// Twin is the outer harness itself.
func (h *OnModel) Twin(testing.TB) Harness { return h.Self }
