package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

func TestMain(m *testing.M) {
	if work := os.Getenv(childWork); work != "" {
		os.Exit(child(work))
	}
	goleak.VerifyTestMain(m)
}

func TestConforms(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness { return newHarness(t) }, append(storetest.Explained(), storetest.Bulk()...)...)
}

func TestMachine(t *testing.T) {
	storetest.RunMachine(t, func(t testing.TB) storetest.Harness { return newHarness(t) })
}

// failpoints names the points of Settle at which Options.Fail is called.
func failpoints() []string {
	return []string{failBegun, failArchived, failDeleted, failCommit, failCommitted}
}

func (*harness) Failpoints() []string { return failpoints() }

// harness is a store, and an application with a connection of its own to the same file.
type harness struct {
	*Store
	app  *sql.DB
	fail *atomic.Pointer[func(string) error]

	declaring sync.Map // *sql.Stmt by their texts: what inserts schedules, which takes long to compile
}

// newHarness makes a migrated store in a directory of its own.
func newHarness(t testing.TB) *harness {
	t.Helper()
	return openHarness(t, newFile(t), nil)
}

func openHarness(t testing.TB, path string, hook *func(string) error) *harness {
	t.Helper()
	h := &harness{fail: new(atomic.Pointer[func(string) error])}
	h.fail.Store(hook)
	h.Store = open(t, Options{Path: path, Create: true, Fail: func(point string) error {
		if f := h.fail.Load(); f != nil {
			return (*f)(point)
		}
		return nil
	}})
	h.app = application(t, path)
	return h
}

// compiled are the statements of all stores that open opens.
var compiled = sync.OnceValue(compileStatements)

// open opens a store until the test ends.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	o.sql = compiled()
	s, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// application opens the file as a program knowing nothing of this package would.
func application(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)&_txlock=immediate")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// Insert is the plain INSERT, all rows in one transaction.
func (h *harness) Insert(t testing.TB, requests ...store.EnqueueRequest) []task.ID {
	t.Helper()
	tx, err := h.app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }() // where a statement was refused
	ids := make([]task.ID, len(requests))
	for i, r := range requests {
		names, values := requestColumns(r)
		text := fmt.Sprintf("INSERT INTO task (%s) VALUES (?%s) RETURNING id",
			strings.Join(names, ", "), strings.Repeat(", ?", len(names)-1))
		require.NoError(t, tx.QueryRowContext(t.Context(), text, values...).Scan(&ids[i]))
	}
	require.NoError(t, tx.Commit())
	return ids
}

// EnqueueSQL inserts into the view, and reads the id back by key, or as the one that was new in the transaction.
func (h *harness) EnqueueSQL(t testing.TB, r store.EnqueueRequest) (id task.ID) {
	t.Helper()
	tx, err := h.app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }() // where a statement was refused
	names, values := requestColumns(r)
	text := fmt.Sprintf("INSERT INTO enqueue (%s) VALUES (?%s)", strings.Join(names, ", "), strings.Repeat(", ?", len(names)-1))
	_, err = tx.ExecContext(t.Context(), text, values...)
	require.NoError(t, err)
	if r.Key != "" {
		err = tx.QueryRowContext(t.Context(), "SELECT id FROM enqueue WHERE type = ? AND key = ?", r.Type, r.Key).Scan(&id)
	} else {
		err = tx.QueryRowContext(t.Context(), "SELECT max(id) FROM enqueue").Scan(&id)
	}
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	return id
}

// EnqueueResultSQL inserts into the view, and reads what was done in the same transaction.
func (h *harness) EnqueueResultSQL(t testing.TB, r store.EnqueueRequest) (id task.ID, answer store.Enqueued, err error) {
	t.Helper()
	tx, err := h.app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }() // where a statement was refused
	names, values := requestColumns(r)
	add := func(name string, set bool, value any) {
		if set {
			names, values = append(names, name), append(values, value)
		}
	}
	add("on_live", r.OnLive != "", string(r.OnLive))
	add("debounce_s", r.Debounce != 0, r.Debounce.Seconds())
	add("debounce_max_s", r.DebounceMax != 0, r.DebounceMax.Seconds())
	text := fmt.Sprintf("INSERT INTO enqueue (%s) VALUES (?%s)", strings.Join(names, ", "), strings.Repeat(", ?", len(names)-1))
	if _, err = tx.ExecContext(t.Context(), text, values...); err != nil {
		return 0, "", err
	}
	if err = tx.QueryRowContext(t.Context(), "SELECT id, answer FROM enqueue_result").Scan(&id, &answer); err != nil {
		return 0, "", err
	}
	return id, answer, tx.Commit()
}

// requestColumns lists the columns that an application has something to say about.
func requestColumns(r store.EnqueueRequest) (names []string, values []any) {
	add := func(name string, set bool, value any) {
		if set {
			names, values = append(names, name), append(values, value)
		}
	}
	add("type", true, r.Type)
	add("payload", r.Payload != nil, string(r.Payload))
	add("priority", r.Priority != 0, r.Priority)
	add("key", r.Key != "", r.Key)
	add("region", r.Region != "", r.Region)
	add("max_attempts", r.MaxAttempts != 0, r.MaxAttempts)
	add("traceparent", r.Traceparent != "", r.Traceparent)
	add("created_by", r.CreatedBy != "", r.CreatedBy)
	add("batch_id", r.Batch != 0, int64(r.Batch))
	add("lock", r.Lock != "", r.Lock)
	add("sequence", r.Sequence != "", r.Sequence)
	add("after", len(r.After) > 0, strings.ReplaceAll(fmt.Sprint(r.After), " ", ","))
	add("after_if", r.AfterIf != "", r.AfterIf)
	add("tenant", r.Tenant != "", r.Tenant)
	add("rollback_payload", r.RollbackPayload != nil, string(r.RollbackPayload))
	switch {
	case !r.RunAt.IsZero():
		add("run_at", true, stamp(r.RunAt))
	case r.In != 0:
		add("run_at", true, stamp(time.Now().Add(r.In)))
	}
	labels, err := labelText(r.Labels)
	if err != nil {
		panic(err)
	}
	add("labels", labels != "", labels)
	return names, values
}

// calm is the view of a session that has been there for long.
func calm() store.View { return store.View{Now: time.Now(), Calm: time.Hour} }

// Now is the machine's clock, as the store's is.
func (h *harness) Now() time.Time { return time.Now() }

// Advance shifts every time in the file back.
func (h *harness) Advance(t testing.TB, d time.Duration) {
	t.Helper()
	shifted := map[string][]string{
		"lock_note": {"until"}, "sequence_note": {"until"},
		"task":          {"run_at", "created_at", "lease_until", "claimed_at", "deadline", "cancel_requested_at", "ping_due", "first_due"},
		"task_archive":  {"run_at", "created_at", "lease_until", "claimed_at", "deadline", "started_at", "finished_at", "cancel_requested_at"},
		"follow":        {"run_at", "created_at"},
		"attempt":       {"started_at", "ended_at"},
		"agent":         {"started_at", "seen_at", "present_until", "calm_at"},
		"batch":         {"created_at", "ended_at"},
		"operation":     {"requested_at", "after_at", "ended_at"},
		"bulk_change":   {"requested_at", "ended_at", "again_until"},
		"audit":         {"at"},
		"activity":      {"at"},
		"type_pause":    {"paused_at"},
		"lease":         {"acquired_at", "expires_at", "expiry_seen_at"},
		"schedule":      {"created_at", "cursor_at", "queued_slot", "last_slot", "next_at", "paused_at", "parked_at"},
		"declaration":   {"first_at", "last_at"},
		"chunk_plan":    {"created_at", "paused_at", "grow_at", "repeat_at", "held_until"},
		"chunk_pass":    {"began_at", "sealed_at"},
		"limit_place":   {"kept_at", "until"},
		"limit_bucket":  {"counted_at"},
		"tenant_bucket": {"counted_at", "full_at"},
	}
	back := strings.Replace(modifier(max(d, -d)), "+", "-", 1)
	if d < 0 {
		back = modifier(-d)
	}
	tx, err := h.app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }() // where a statement was refused
	for table, columns := range shifted {
		var set []string
		for _, c := range columns {
			set = append(set, c+" = strftime('%Y-%m-%dT%H:%M:%fZ', "+c+", ?1)")
		}
		_, err := tx.ExecContext(t.Context(), "UPDATE "+table+" SET "+strings.Join(set, ", "), back)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
}

func (h *harness) Fail(hook func(string) error) {
	if hook == nil {
		h.fail.Store(nil)
		return
	}
	h.fail.Store(&hook)
}

// LockRow: there are no locks on rows.
func (h *harness) LockRow(testing.TB, task.ID) func() { return nil }

func (h *harness) Twin(t testing.TB) storetest.Harness {
	t.Helper()
	return openHarness(t, h.path, h.fail.Load())
}

// exec runs a statement as an application.
func (h *harness) exec(t testing.TB, text string, args ...any) error {
	t.Helper()
	_, err := h.app.ExecContext(t.Context(), text, args...)
	return err
}

func bounded(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
