package postgres_test

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

// TestConforms runs with the grants that are printed for agents, and nothing more; TestAgainstTheModel as the owner.
func TestConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Harness { return newPooledHarness(t, asAgent) }, append(storetest.Explained(), storetest.Bulk()...)...)
}

func TestAgainstTheModel(t *testing.T) {
	t.Parallel()
	storetest.RunMachine(t, func(t testing.TB) storetest.Harness { return newPooledHarness(t, asOwner) })
}

// harness is a migrated store in a schema of its own, with an application's role beside it.
type harness struct {
	*postgres.Store
	t          testing.TB
	schema     string
	asApp      string // a URL
	asOperator string // another
	asAgent    string // the store's; "": it is the superuser's
	agents     string // grants for the role of that
	hook       func(point string) error
	plain      *postgres.Store    // without failpoints, as in production
	ahead      time.Duration      // of the local clock, is the server's
	opened     *[]*postgres.Store // by this harness and all its twins
	first      *postgres.Store    // on this schema: all others use its statements; nil: there was none

	connections *connections // beside the store's; nil: each is new
}

// newFreshHarness makes a harness on a schema that was migrated for it.
func newFreshHarness(t testing.TB) *harness {
	t.Helper()
	h := &harness{t: t, schema: pgtest.Schema(t), opened: new([]*postgres.Store), ahead: pgtest.Ahead(t)}
	h.open()
	_, err := h.Migrator().Up(t.Context())
	require.NoError(t, err)
	h.asApp = pgtest.Role(t, func(role string) string { return postgres.Grants(h.schema, role, false) })
	h.asOperator = pgtest.Role(t, func(role string) string { return postgres.Grants(h.schema, role, true) })
	return h
}

// newFreshAgentHarness is a fresh harness whose store connects as a role that owns nothing.
func newFreshAgentHarness(t testing.TB) *harness {
	t.Helper()
	h := newFreshHarness(t)
	h.asAgent = pgtest.Role(t, func(role string) string {
		h.agents = postgres.AgentGrants(h.schema, role)
		return h.agents
	})
	h.open()
	return h
}

// open opens the harness's store anew, with the hook it has.
func (h *harness) open() {
	h.t.Helper()
	o := postgres.Options{URL: cmp.Or(h.asAgent, pgtest.URL(h.t)), Schema: h.schema, Notify: true, Fail: h.hook}
	o = h.connections.pooled(h.t, o)
	h.Store = openStore(h.t, o.WithStatementsOf(h.first))
	h.first = cmp.Or(h.first, h.Store)
	h.LookForTenants()
	*h.opened = append(*h.opened, h.Store)
	if h.hook == nil {
		h.plain = h.Store
	}
}

// openStore opens a store on the test server that is closed when the test is over.
func openStore(t testing.TB, o postgres.Options) *postgres.Store {
	t.Helper()
	if o.URL == "" {
		o.URL = pgtest.URL(t)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s, err := postgres.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// q fills the schema's name in where a statement says SCHEMA.
func (h *harness) q(text string) string { return strings.ReplaceAll(text, "SCHEMA", h.schema) }

// exec runs a script as the superuser.
func (h *harness) exec(t testing.TB, script string) {
	t.Helper()
	pgtest.Exec(t, h.q(script))
}

// number reads one number as the superuser.
func (h *harness) number(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	conn, end := h.connections.connection(t, pgtest.URL(t))
	defer end()
	require.NoError(t, conn.QueryRow(t.Context(), h.q(query), args...).Scan(&n))
	return n
}

func (h *harness) Insert(t testing.TB, requests ...store.EnqueueRequest) []task.ID {
	t.Helper()
	conn, end := h.connections.connection(t, h.asApp)
	defer end()
	var ids []task.ID
	require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		for _, r := range requests {
			columns, values, args := producerColumns(t, r)
			b.Queue(h.q(`INSERT INTO SCHEMA.task (`+columns+`) VALUES (`+values+`) RETURNING id`), args...).
				QueryRow(func(row pgx.Row) error {
					var id int64
					err := row.Scan(&id)
					ids = append(ids, task.ID(id))
					return err
				})
		}
		return tx.SendBatch(t.Context(), b).Close()
	}))
	return ids
}

func (h *harness) EnqueueSQL(t testing.TB, r store.EnqueueRequest) (id task.ID) {
	t.Helper()
	_, _, args := producerColumns(t, r)
	var list []string
	for i, name := range producerNames(r) {
		list = append(list, name+" => "+producerValue(r, name, i+1))
	}
	conn, end := h.connections.connection(t, h.asApp)
	defer end()
	row := conn.QueryRow(t.Context(), h.q(`SELECT SCHEMA.enqueue(`+strings.Join(list, ", ")+`)`), args...)
	require.NoError(t, row.Scan((*int64)(&id)))
	return id
}

// EnqueueResultSQL enqueues by the function enqueue_result.
func (h *harness) EnqueueResultSQL(t testing.TB, r store.EnqueueRequest) (id task.ID, answer store.Enqueued, err error) {
	t.Helper()
	conn, end := h.connections.connection(t, h.asApp)
	defer end()
	text, args := h.enqueueResult(t, r)
	err = conn.QueryRow(t.Context(), text, args...).Scan((*int64)(&id), (*string)(&answer))
	return id, answer, err
}

// enqueueResult is a call of enqueue_result and its arguments.
func (h *harness) enqueueResult(t testing.TB, r store.EnqueueRequest) (text string, args []any) {
	t.Helper()
	_, _, args = producerColumns(t, r)
	var list []string
	for i, name := range producerNames(r) {
		list = append(list, name+" => "+producerValue(r, name, i+1))
	}
	add := func(name string, set bool, value any, kind string) {
		if set {
			args = append(args, value)
			list = append(list, name+" => $"+strconv.Itoa(len(args))+kind)
		}
	}
	add("on_live", r.OnLive != "", string(r.OnLive), "::text")
	add("debounce", r.Debounce != 0, r.Debounce.Microseconds(), "::bigint * interval '1 microsecond'")
	add("debounce_max", r.DebounceMax != 0, r.DebounceMax.Microseconds(), "::bigint * interval '1 microsecond'")
	return h.q(`SELECT id, answer FROM SCHEMA.enqueue_result(` + strings.Join(list, ", ") + `)`), args
}

// producerNames lists the columns that a request sets.
func producerNames(r store.EnqueueRequest) []string {
	names := []string{"type"}
	for _, c := range []struct {
		name string
		set  bool
	}{
		{"payload", r.Payload != nil}, {"run_at", !r.RunAt.IsZero() || r.In != 0}, {"priority", r.Priority != 0},
		{"key", r.Key != ""}, {"region", r.Region != ""}, {"max_attempts", r.MaxAttempts != 0},
		{"labels", len(r.Labels) > 0}, {"traceparent", r.Traceparent != ""}, {"created_by", r.CreatedBy != ""},
		{"batch_id", r.Batch != 0}, {"rollback_payload", r.RollbackPayload != nil},
		{"lock", r.Lock != ""}, {"sequence", r.Sequence != ""}, {"after", len(r.After) > 0}, {"after_if", r.AfterIf != ""},
		{"tenant", r.Tenant != ""},
	} {
		if c.set {
			names = append(names, c.name)
		}
	}
	return names
}

// producerValue is the placeholder for a column's value.
func producerValue(r store.EnqueueRequest, name string, place int) string {
	at := "$" + strconv.Itoa(place)
	switch name {
	case "payload", "labels", "rollback_payload":
		return at + "::text::jsonb"
	case "run_at":
		if !r.RunAt.IsZero() {
			return at + "::timestamptz"
		}
		return "now() + " + at + "::bigint * interval '1 microsecond'"
	case "after":
		return at + "::bigint[]"
	case "batch_id":
		return at + "::bigint"
	case "priority", "max_attempts":
		return at + "::integer"
	}
	return at + "::text"
}

func producerColumns(t testing.TB, r store.EnqueueRequest) (columns, values string, args []any) {
	t.Helper()
	labels, err := json.Marshal(r.Labels)
	require.NoError(t, err)
	runAt := any(r.In.Microseconds())
	if !r.RunAt.IsZero() {
		runAt = r.RunAt
	}
	value := map[string]any{
		"type": r.Type, "payload": string(r.Payload), "run_at": runAt, "priority": r.Priority, "key": r.Key,
		"region": r.Region, "max_attempts": r.MaxAttempts, "labels": string(labels), "traceparent": r.Traceparent,
		"created_by": r.CreatedBy, "batch_id": int64(r.Batch), "rollback_payload": string(r.RollbackPayload),
		"lock": r.Lock, "sequence": r.Sequence, "after": r.After, "after_if": r.AfterIf, "tenant": r.Tenant,
	}
	for i, name := range producerNames(r) {
		if i > 0 {
			columns, values = columns+", ", values+", "
		}
		columns, values = columns+name, values+producerValue(r, name, i+1)
		args = append(args, value[name])
	}
	return columns, values, args
}

// Now is the server's clock.
func (h *harness) Now() time.Time { return time.Now().Add(h.ahead) }

// Advance shifts all times back. Rows of the archive move to the partitions of the days that they then belong to.
func (h *harness) Advance(t testing.TB, d time.Duration) {
	t.Helper()
	for _, s := range *h.opened {
		s.ForgetLowWater() // they are times too, and would be over by then
	}
	conn, end := h.connections.connection(t, pgtest.URL(t))
	defer end()
	us := d.Microseconds()
	require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		rows, err := tx.Query(t.Context(), h.q(`
			SELECT DISTINCT to_char((finished_at - $1::bigint * interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD')
			FROM SCHEMA.task_archive`), us)
		require.NoError(t, err)
		days, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		for _, day := range days {
			name := strings.ReplaceAll(day, "-", "")
			_, err := tx.Exec(t.Context(), h.q(`CREATE TABLE IF NOT EXISTS SCHEMA.task_archive_`+name+`
				PARTITION OF SCHEMA.task_archive
				FOR VALUES FROM ('`+day+` 00:00:00+00') TO ('`+nextDay(t, day)+` 00:00:00+00')`))
			require.NoError(t, err)
		}
		_, err = tx.Exec(t.Context(), h.agents) // on these partitions
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`) // no triggers: no row ends because its day changes
		require.NoError(t, err)
		for table, columns := range map[string][]string{
			"lock_note":     {"until"},
			"sequence_note": {"until"},
			"task":          {"run_at", "created_at", "lease_until", "claimed_at", "deadline", "cancel_requested_at", "ping_due", "first_due"},
			"task_archive": {
				"run_at", "created_at", "lease_until", "claimed_at", "deadline", "started_at", "finished_at", "cancel_requested_at",
			},
			"follow":      {"run_at", "created_at"},
			"attempt":     {"started_at", "ended_at"},
			"agent":       {"started_at", "seen_at", "present_until", "calm_at"},
			"batch":       {"created_at", "ended_at"},
			"operation":   {"requested_at", "ended_at", "after_at"},
			"bulk_change": {"requested_at", "ended_at", "again_until"},
			"audit":       {"at"},
			"activity":    {"at"},
			"type_pause":  {"paused_at"},
			"lease":       {"acquired_at", "expires_at", "expiry_seen_at"},
			"schedule": {
				"created_at", "cursor_at", "queued_slot", "last_slot", "next_at", "paused_at", "parked_at",
			},
			"declaration":   {"first_at", "last_at"},
			"chunk_plan":    {"created_at", "paused_at", "grow_at", "repeat_at", "held_until"},
			"chunk_pass":    {"began_at", "sealed_at"},
			"type_limit":    {"since"},
			"limit_place":   {"kept_at", "until"},
			"limit_bucket":  {"counted_at"},
			"tenant_bucket": {"counted_at", "full_at"},
		} {
			sets := make([]string, len(columns))
			for i, c := range columns {
				sets[i] = c + " = " + c + " - $1::bigint * interval '1 microsecond'"
			}
			_, err := tx.Exec(t.Context(), h.q(`UPDATE SCHEMA.`+table+` SET `+strings.Join(sets, ", ")), us)
			require.NoError(t, err)
		}
		return nil
	}))
}

func nextDay(t testing.TB, day string) string {
	t.Helper()
	d, err := time.Parse(time.DateOnly, day)
	require.NoError(t, err)
	return d.AddDate(0, 0, 1).Format(time.DateOnly)
}

func (h *harness) Fail(hook func(point string) error) {
	h.hook = hook
	if hook == nil {
		h.Store = h.plain
		return
	}
	h.open()
}

// Failpoints names those that every settlement comes by; the others are in partitions_test.go.
func (*harness) Failpoints() []string { return postgres.Failpoints()[:3] }

func (h *harness) LockRow(t testing.TB, id task.ID) (release func()) {
	t.Helper()
	conn := pgtest.Connect(t)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	var got int64
	require.NoError(t, tx.QueryRow(t.Context(),
		h.q(`SELECT id FROM SCHEMA.task WHERE id = $1 FOR KEY SHARE`), int64(id)).Scan(&got))
	return sync.OnceFunc(func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) })
}

func (h *harness) Twin(t testing.TB) storetest.Harness {
	t.Helper()
	twin := &harness{
		t: t, schema: h.schema, asApp: h.asApp, asOperator: h.asOperator, asAgent: h.asAgent, agents: h.agents,
		hook: h.hook, plain: h.plain, opened: h.opened, first: h.first, connections: h.connections,
	}
	twin.open()
	return twin
}
