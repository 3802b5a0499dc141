package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// OnModel is the harness of the model: its clock stands still but for a tick at every reading, and Advance.
type OnModel struct {
	*model.Store
	clock *clock
	// Self is what Twin returns: the model has no connections. NewOnModel sets it to the harness itself; a type
	// that embeds it sets it to the outer one.
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
func (h *OnModel) Insert(t testing.TB, r ...store.EnqueueRequest) []task.ID {
	t.Helper()
	ids, err := h.Store.Insert(t.Context(), r...)
	require.NoError(t, err)
	return ids
}

// EnqueueSQL is Enqueue: the model speaks no SQL.
func (h *OnModel) EnqueueSQL(t testing.TB, r store.EnqueueRequest) task.ID {
	t.Helper()
	id, _, err := h.Enqueue(t.Context(), r)
	require.NoError(t, err)
	return id
}

// EnqueueResultSQL is Enqueue.
func (h *OnModel) EnqueueResultSQL(t testing.TB, r store.EnqueueRequest) (task.ID, store.Enqueued, error) {
	t.Helper()
	return h.Enqueue(t.Context(), r)
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

// Produce begins a transaction in which an application inserts.
func (h *OnModel) Produce(testing.TB) Producer { return h.Store.Produce() }

// OperatorSQL is what the model does itself, with errors in the words of SQL.
func (h *OnModel) OperatorSQL(testing.TB) OperatorSQL { return onModelSQL{h.Store} }

// Roles are none: the model has no sessions.
func (*OnModel) Roles(testing.TB) (agents, operators string) { return "", "" }

// ComparesJSON reports whether pings by SQL compare texts and checkpoints.
func (h *OnModel) ComparesJSON() bool { return !h.NumbersOnly }

// Audit reads what was noted.
func (h *OnModel) Audit(testing.TB) []Audited {
	var out []Audited
	for _, a := range h.Noted() {
		out = append(out, Audited{
			Who: a.Who, Verb: a.Verb, Task: a.Task, Batch: a.Batch, Schedule: a.Schedule, Chunks: a.Chunks, Type: a.Type, Reason: a.Reason, Answer: a.Answer,
		})
	}
	return out
}

// NamedLeases lists the named leases.
func (h *OnModel) NamedLeases(testing.TB) []store.NamedLease { return h.Store.NamedLeases() }

// BatchStates asks the model, which keeps no counters.
func (*OnModel) BatchStates(_ testing.TB, facts []store.BatchFacts) []store.BatchState {
	states := make([]store.BatchState, len(facts))
	for i := range facts {
		states[i] = model.StateOf(&facts[i])
	}
	return states
}

// BatchFailpoints are those of everything.
func (h *OnModel) BatchFailpoints() []string { return h.Failpoints() }

// onModelSQL speaks as a database does.
type onModelSQL struct{ *model.Store }

func (s onModelSQL) Cancel(ctx context.Context, id task.ID, by string) (store.Became, error) {
	return inSQL(s.Store.Cancel(ctx, id, by))
}

func (s onModelSQL) Retry(ctx context.Context, id task.ID, by string) (store.Became, error) {
	return inSQL(s.Store.Retry(ctx, id, by))
}

func (s onModelSQL) RetryWith(ctx context.Context, id task.ID, payload json.RawMessage, by string) (store.Became, error) {
	return inSQL(s.Store.RetryWith(ctx, id, payload, by))
}

func (s onModelSQL) Rollback(ctx context.Context, id task.ID, by string) (store.Became, error) {
	return inSQL(s.Store.Rollback(ctx, id, by))
}

func (s onModelSQL) CancelBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return inSQL(s.Store.CancelBatch(ctx, id, by))
}

func (s onModelSQL) RetryBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return inSQL(s.Store.RetryBatch(ctx, id, by))
}

func (s onModelSQL) RollbackBatch(ctx context.Context, id task.BatchID, by string, force bool) (string, error) {
	return inSQL(s.Store.RollbackBatch(ctx, id, by, force))
}

// inSQL says that there is no such thing as the functions of SQL do.
func inSQL[A any](a A, err error) (A, error) {
	switch {
	case errors.Is(err, store.ErrNoTask):
		err = errors.New("there is no task of that id")
	case errors.Is(err, store.ErrNoBatch):
		err = errors.New("there is no batch of that id")
	}
	return a, err
}

// AddSchedule inserts a schedule.
func (h *OnModel) AddSchedule(t testing.TB, spec store.ScheduleSpec) error {
	return h.Store.AddSchedule(t.Context(), spec)
}

// UpsertSchedule inserts a schedule, or changes it.
func (h *OnModel) UpsertSchedule(t testing.TB, spec store.ScheduleSpec) error {
	return h.Store.UpsertSchedule(t.Context(), spec)
}

// ChangeSchedule changes a schedule.
func (h *OnModel) ChangeSchedule(t testing.TB, spec store.ScheduleSpec) error {
	return h.Store.ChangeSchedule(t.Context(), spec)
}

// DeleteSchedule deletes a schedule.
func (h *OnModel) DeleteSchedule(t testing.TB, name string) error {
	return h.Store.DeleteSchedule(t.Context(), name)
}

// DeclareSchedule declares a schedule as HCL does.
func (h *OnModel) DeclareSchedule(t testing.TB, spec store.ScheduleSpec, number int64) error {
	return h.Store.DeclareSchedule(t.Context(), spec, number)
}

// HaltSchedule pauses or parks a schedule.
func (h *OnModel) HaltSchedule(_ testing.TB, name, how string) {
	h.Store.HaltSchedule(name, how == "parked")
}

// ShownSchedule reads a schedule.
func (h *OnModel) ShownSchedule(_ testing.TB, name string) ShownSchedule {
	c := h.Store.ShownSchedule(name)
	return ShownSchedule{
		Missed: c.Missed, NextAt: c.NextAt, LastSlot: c.LastSlot, LastTask: c.LastTask, LastBy: c.LastBy, Queued: c.Queued,
		Invalid: c.Invalid,
	}
}

// AddChunkPlan declares a plan.
func (h *OnModel) AddChunkPlan(_ testing.TB, spec store.ChunkSpec) { h.Store.AddChunkPlan(spec) }

// PauseChunkPlan pauses a plan.
func (h *OnModel) PauseChunkPlan(_ testing.TB, name string) { h.Store.PauseChunkPlan(name) }

// LockChunkPlan does nothing: the model has no transactions of operators.
func (h *OnModel) LockChunkPlan(testing.TB, string) func() { return nil }

// ChunkPasses reads the ledger.
func (h *OnModel) ChunkPasses(_ testing.TB, name string) (list []ChunkPass) {
	for _, p := range h.Store.ChunkPasses(name) {
		list = append(list, ChunkPass{
			Pass: p.Pass, Full: p.Full, From: p.From, Through: p.Through, Ranges: p.Ranges, Chunks: p.Chunks, Rows: p.Rows,
			Batch: p.Batch, Sealed: p.Sealed,
		})
	}
	return list
}
