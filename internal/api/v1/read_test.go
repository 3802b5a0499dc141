package v1

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// enqueue inserts a task through the store.
func (r *rig) enqueue(q store.EnqueueRequest) task.ID {
	r.t.Helper()
	id, _, err := r.store.Enqueue(r.t.Context(), q)
	require.NoError(r.t, err)
	return id
}

// eachStore runs a test on both stores.
func eachStore(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, onSQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, onPostgres(t)) })
}

// page reads a page's numbers and its next link.
func page(t *testing.T, a answer, list string) (ids []int64, next string) {
	t.Helper()
	var p map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(a.body), &p))
	var entries []struct{ ID int64 }
	require.NoError(t, json.Unmarshal(p[list], &entries))
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	if p["next"] != nil {
		require.NoError(t, json.Unmarshal(p["next"], &next))
	}
	return ids, strings.TrimPrefix(next, Prefix)
}

// history reads what agents have done lately, and checks that it is read once for many who ask.
func (r *rig) history(session task.Session) {
	r.t.Helper()
	r.is(200, "GET", "/history", "", `"span":"1h"`, `"step_s":60`, `"outcomes":{}`, `"start_latency_p50_s":null`)
	r.is(400, "GET", "/history?span=2h", "", "use 1h or 48h")
	r.is(400, "GET", "/history?x=1", "", "this takes span, type")
	var rows []store.ActivityRow
	for i := range store.ActivityTop + 2 {
		row := store.ActivityRow{Step: store.ActivityHour, At: store.ActivityHour.Of(time.Now().Add(-time.Hour)), Type: fmt.Sprint("type", i)}
		row.Outcomes[0], row.Outcomes[3], row.Latency[5] = int64(100+i), 7, 100
		rows = append(rows, row)
	}
	dropped, err := r.store.KeepActivity(r.t.Context(), session, rows)
	require.NoError(r.t, err)
	require.Zero(r.t, dropped)
	r.is(200, "GET", "/history?span=48h&type=type3", "", `"type":"type3"`, `"step_s":3600`, `"outcomes":{"stalled":7,"succeeded":103}`, `"start_latency_p50_s":0.035`)
	first := r.is(200, "GET", "/history?span=48h", "", `"type":"type21"`, `"other":{"started":200`, `"ended_by_interval":[0,`)
	_, err = r.store.KeepActivity(r.t.Context(), session, []store.ActivityRow{{Step: store.ActivityHour, At: rows[0].At, Type: "type21"}})
	require.NoError(r.t, err)
	require.Equal(r.t, first.body, r.is(200, "GET", "/history?span=48h", "").body, "the answer is kept")
	*r.api.Histories = ops.Histories{}
	require.NotEqual(r.t, first.body, r.is(200, "GET", "/history?span=48h", "").body)
}

// TestReading reads all that there is, filled.
func TestReading(t *testing.T) {
	eachStore(t, func(t *testing.T, r *rig) {
		r.is(503, "GET", "/health", "", "no agent that claims tasks is present")
		r.api.health.at = time.Time{} // the answer is kept for two seconds
		session := r.join("billing-1", "invoice.send", "account.book")
		for i := range 5 {
			r.enqueue(store.EnqueueRequest{
				Type: "invoice.send", Key: fmt.Sprint("k", i), Labels: map[string]string{"n": fmt.Sprint(i % 2)}, Payload: json.RawMessage(`{"n": 1}`),
				Lock: "l", Tenant: "acme", RollbackPayload: json.RawMessage(`[1]`), CreatedBy: "test", Region: "sg",
			})
		}
		r.enqueue(store.EnqueueRequest{Type: "account.book", Sequence: "account/7", Payload: json.RawMessage(`null`)})
		r.enqueue(store.EnqueueRequest{Type: "account.book", Sequence: "account/7", After: []task.ID{1}})
		failed := r.end(session, "account.book", task.StateFailed, task.Failed, "exit code 1: <script>\u2028 \x1b[31m")
		batch, err := r.store.CreateBatch(t.Context(), store.BatchRequest{Name: "b", Open: true}, none, nil)
		require.NoError(t, err)
		r.enqueue(store.EnqueueRequest{Type: "gone", Batch: batch})
		_, err = r.store.PauseType(t.Context(), "invoice.send", "the bank is down", "alice")
		require.NoError(t, err)
		_, err = r.store.DeclareBlocks(t.Context(), session, []store.Block{{Kind: "task", Name: "invoice.send", Fields: map[string]string{"timeout": `"30s"`}}})
		require.NoError(t, err)
		r.schedules(session, schedule.Spec{Name: "nightly", Task: "report", Cron: "0 3 * * *"}, schedule.Spec{Name: "yearly", Task: "report", Every: "720h"})
		_, err = r.store.DeclareChunks(t.Context(), session, []store.ChunkDeclaration{{Spec: store.ChunkSpec{
			Name: "events", Task: "event", Table: "event", Key: "id", Size: store.ChunkSize{Start: 10, Min: 1, Max: 100}, Ahead: 1,
		}}})
		require.NoError(t, err)

		_, err = r.store.StartBulk(t.Context(), store.BulkRequest{Verb: "retry", Filter: store.BulkFilter{Type: "none"}, By: "alice"})
		require.NoError(t, err)
		r.is(200, "GET", "/changes/1", "", `"verb":"retry"`, `"filter":{"type":"none"}`, `"requested_by":"alice"`)

		r.is(200, "GET", "/openapi.json", "", `"openapi": "3.1.0"`)
		r.is(200, "GET", "/health", "", `"status":"ok"`, `"agents_claiming":1`, `"rows":{"pending":7}`, `"orphans":1`)
		r.is(200, "GET", "/doctor", "", `"healthy":false`, `"name":"orphans"`, `"about":"gone"`, `"name":"type_paused"`, `"remedy":"leasehold resume invoice.send"`)
		r.is(400, "GET", "/doctor?x=1", "")
		r.history(session)
		r.is(200, "GET", "/agents?all=true", "", `"name":"billing-1"`)
		r.is(200, "GET", "/orphans", "", `"type":"gone"`)
		r.is(200, "GET", "/regions", "", `"regions":[{"region":"sg","due":5,"agents":0,"types":["invoice.send"]}]`)
		r.is(200, "GET", "/regions?from=t", "", `{"regions":[]}`)
		r.is(200, "GET", "/plan", "", `"replaces":["billing-1"],"keeps":[],"unchanged":0,"changes":[{"kind":"task","name":"invoice.send","what":"changed",`+
			`"fields":[{"name":"timeout","before":"\"30s\"","after":"\"40s\""}],"waiting":5`, `"orphans":{"account.book":1,"gone":1}`)
		r.is(200, "GET", "/pauses", "", `"reason":"the bank is down"`)
		r.is(200, "GET", "/audit", "", `"requested_by":"alice"`, `"answer":"bulk change 1: {`, `"reason":"the bank is down"`)
		entries, older := page(t, r.is(200, "GET", "/audit?requested_by=alice&limit=1&since=1h", ""), "audit")
		require.Len(t, entries, 1)
		require.Contains(t, older, "requested_by=alice")
		r.is(200, "GET", older, "", `"verb":"pause","answer":"paused","reason":"the bank is down","type":"invoice.send"}]`)
		r.is(200, "GET", "/audit?task=1", "", `{"audit":[]}`)
		r.is(200, "GET", "/flow", "", `"limits":[]`, `"tenants":[{"running":0,"type":"invoice.send","tenant":"acme","waiting":5}]`, `"locks":[]`)
		r.is(400, "GET", "/audit?since=soon", "", "an age such as 2h")
		r.is(400, "GET", "/audit?batch=x", "", "whole number")
		r.is(200, "GET", "/declarations?kind=task", "", `"timeout":"\"30s\""`)
		r.is(200, "GET", "/declarations/task/invoice.send", "", `"first":true`)
		r.is(404, "GET", "/declarations/task/nope", "", "no such block was ever declared")
		r.is(400, "GET", "/declarations/store/x", "", "use task, schedule or chunks")
		_, next := page(t, r.is(200, "GET", "/schedules?limit=1", "", `"words":"at 03:00 every day, UTC"`), "schedules")
		require.Equal(t, "/schedules?from=yearly&limit=1", next)
		_, next = page(t, r.is(200, "GET", next, "", "yearly"), "schedules")
		require.Empty(t, next)
		r.is(200, "GET", "/schedules/nightly", "", `"next_slots":[`)
		r.is(404, "GET", "/schedules/nope", "", `schedule \"nope\"`)
		r.is(200, "GET", "/sequences?type=account.book", "", `"state":"blocked"`)
		r.is(200, "GET", "/sequences/account.book/account%2F7", "", `"next_tasks":[7]`)
		r.is(404, "GET", "/sequences/account.book/nope", "", "no such sequence")
		r.is(200, "GET", "/chunks", "", `"name":"events"`)
		r.is(200, "GET", "/chunks/events", "", `"passes":[]`)
		r.is(404, "GET", "/chunks/nope", "")
		r.is(200, "GET", "/chunks/events/verify?count=false", "", `"covered":false`, `"problems":["no sealed passes`)
		r.is(200, "GET", "/batches?state=pending", "", `"name":"b"`)
		r.is(200, "GET", fmt.Sprintf("/batches/%d", batch), "", `"failures":[]`)
		r.is(404, "GET", "/batches/99", "", "no such batch")
		r.is(404, "GET", "/tasks/99", "", "task 99: no such task")
		r.is(200, "GET", "/tasks/1/why", "", `"reason":"paused"`, `"by":"alice"`, `"also":[`)
		r.is(200, "GET", fmt.Sprintf("/tasks/%d/why", failed), "", `"reason":"finished"`)
		r.is(404, "GET", "/tasks/99/why", "", "task 99: no such task")
		r.is(400, "GET", "/tasks/1/why?x=1", "")
		got := r.is(200, "GET", fmt.Sprintf("/tasks/%d", failed), "", `"state":"failed"`, `"history":[`, `\u2028`, `\u003cscript`, `"traceparent":"00-0af`)
		require.NotContains(t, got.body, "\x1b")

		ids, next := page(t, r.is(200, "GET", "/tasks?type=invoice.send&limit=2&state=pending&state=running", ""), "tasks")
		require.Equal(t, []int64{5, 4}, ids)
		ids, next = page(t, r.is(200, "GET", next, ""), "tasks")
		require.Equal(t, []int64{3, 2}, ids)
		ids, next = page(t, r.is(200, "GET", next, ""), "tasks")
		require.Equal(t, []int64{1}, ids)
		require.Empty(t, next)
		ids, _ = page(t, r.is(200, "GET", "/tasks?label=n%3D1", ""), "tasks")
		require.Equal(t, []int64{4, 2}, ids)
		ids, _ = page(t, r.is(200, "GET", "/tasks?key=k0", ""), "tasks")
		require.Equal(t, []int64{1}, ids)
		ids, _ = page(t, r.is(200, "GET", fmt.Sprintf("/tasks?batch=%d", batch), ""), "tasks")
		require.Equal(t, []int64{8}, ids)
		r.meets("GET", "GET /events", "GET /tasks/{id}/wait", "GET /tasks/{id}/events")
	})
}

// meets checks that the test has had an answer of 200 from each operation with the method.
func (r *rig) meets(method string, but ...string) {
	r.t.Helper()
	for _, op := range r.contract.operations() {
		if strings.HasPrefix(op, method+" ") && !strings.Contains(strings.Join(but, "\n"), op) {
			require.True(r.t, r.contract.met[op+" 200"] || r.contract.met[op+" 201"], "%s was not asked", op)
		}
	}
}

// none gives no rows.
func none(func(store.EnqueueRequest, error) bool) {}

// schedules has a session declare schedules.
func (r *rig) schedules(session task.Session, list ...schedule.Spec) {
	r.t.Helper()
	d := schedule.NewDeclarer(r.store, list, func() (task.Session, bool) { return session, true }, func(time.Time) bool { return false },
		func(string) string { return "" }, r.api.Log)
	require.NoError(r.t, d.Turn(r.t.Context()))
}

// TestPagesAreBounded gets a page that ends early because of what its tasks have.
func TestPagesAreBounded(t *testing.T) {
	r := onSQLite(t)
	large := json.RawMessage(`"` + strings.Repeat("x", 1<<20-10) + `"`)
	for range 12 {
		r.enqueue(store.EnqueueRequest{Type: "large", Payload: large})
	}
	ids, next := page(t, r.is(200, "GET", "/tasks", ""), "tasks")
	require.Len(t, ids, 9)
	require.Equal(t, "/tasks?before=4", next)
	ids, next = page(t, r.is(200, "GET", next, ""), "tasks")
	require.Equal(t, []int64{3, 2, 1}, ids)
	require.Empty(t, next)
}

// TestWrongQueries refuses what cannot be meant, with the remedy.
func TestWrongQueries(t *testing.T) {
	r := onSQLite(t)
	for path, text := range map[string]string{
		"/tasks?limit=0":                    "limit \\\"0\\\": use a whole number from 1 to 500",
		"/tasks?limit=501":                  "from 1 to 500",
		"/tasks?limit=1e2":                  "from 1 to 500",
		"/tasks?limit=":                     "limit is empty",
		"/tasks?before=-1":                  "before",
		"/tasks?before=9223372036854775808": "before",
		"/tasks?before=4211'--":             "before",
		"/tasks?before=1&before=2":          "before occurs twice",
		"/tasks?state=done":                 "there is no such state",
		"/tasks?typ=x":                      "unknown parameter \\\"typ\\\": this takes state, type,",
		"/tasks?type=%00":                   "text must be UTF-8 without NUL",
		"/tasks?type=%ff":                   "text must be UTF-8 without NUL",
		"/tasks?label=x":                    "use label=name=value",
		"/tasks?label=a%3D1&label=a%3D2":    "once for each name",
		"/tasks?a;b":                        "the query cannot be read",
		"/tasks?%zz":                        "the query cannot be read",
		"/tasks/0":                          "invalid task id",
		"/tasks/-1":                         "invalid task id",
		"/tasks/+1":                         "invalid task id",
		"/tasks/01":                         "invalid task id",
		"/tasks/9223372036854775808":        "invalid task id",
		"/tasks/1%2F2":                      "invalid task id",
		"/tasks/1?x":                        "this takes none",
		"/batches/x":                        "invalid batch id",
		"/batches?state=x":                  "there is no such state",
		"/agents?all=yes":                   "use true or false",
		"/schedules/%00":                    "not UTF-8, or has a NUL",
		"/declarations?kind=agent":          "use task, schedule or chunks",
		"/sequences?from=" + url.QueryEscape("a\x00"): "without NUL",
	} {
		r.is(400, "GET", path, "", text)
	}
}

// TestHostileRows shows what no application should have written.
func TestHostileRows(t *testing.T) {
	r := onSQLite(t)
	id := r.enqueue(store.EnqueueRequest{Type: "x\u2028</script>\r\nSet-Cookie: a=b", Key: "\x01\x1b]0;x\a"})
	db := openFile(t, r.file)
	for _, change := range []string{
		`UPDATE task SET payload = '{"a": "' || char(8232, 127) || '", "a": 1e999, "b": "\u0000\ud800"}' WHERE id = ?`,
		`UPDATE task SET error = CAST(x'ff00fe0a' AS TEXT) WHERE id = ?`,
		`UPDATE task SET progress = CAST(x'22ff22' AS TEXT) WHERE id = ?`,
	} {
		_, err := db.ExecContext(t.Context(), change, id)
		require.NoError(t, err, change)
		for _, path := range []string{"/tasks", "/tasks/1"} {
			a := r.is(200, "GET", path, "")
			require.True(t, json.Valid([]byte(a.body)))
			for _, raw := range []string{"\u2028", "<", "\x00", "\xff", "\x1b"} {
				require.NotContains(t, a.body, raw, path)
			}
		}
	}
}

// TestStoreThatCannotBeUsed asks an API whose store has no schema.
func TestStoreThatCannotBeUsed(t *testing.T) {
	r := onSQLite(t)
	_, err := r.store.Migrator().Down(t.Context())
	require.NoError(t, err)
	r.is(503, "GET", "/health", "", `"status":"failing"`, "the store cannot be used", "migrate up")
	require.Equal(t, "1", r.is(503, "GET", "/tasks", "", "the store cannot be used").header.Get("Retry-After"))
	r.is(503, "POST", "/tasks", `{"type": "x"}`)
	r.is(503, "GET", "/tasks/1/wait?timeout=50ms", "")
	r.is(200, "GET", "/doctor", "", `"healthy":false`, `"name":"schema"`, `"remedy":"leasehold migrate up"`)
	r.is(200, "GET", "/openapi.json", "")
	r.api.Healthy = func() error { return errors.New("the loop has not turned for 30s") }
	r.is(503, "GET", "/health", "", "this agent: the loop has not turned for 30s")
}

// TestRedacted shows no member that a type redacts, by any way to a task.
func TestRedacted(t *testing.T) {
	r := onSQLite(t)
	_, err := r.store.Join(t.Context(), store.Agent{
		Name: "billing-1", Version: "test", Config: "c0ffee", Workers: 1, Types: []string{"x"}, Presence: time.Minute,
		Redact: map[string][]string{"x": {"card"}},
	})
	require.NoError(t, err)
	r.enqueue(store.EnqueueRequest{Type: "x", Payload: json.RawMessage(`{"card": 4111222233334444}`)})
	for _, path := range []string{"/tasks", "/tasks/1", "/tasks/1/wait?timeout=10ms"} {
		require.NotContains(t, r.is(200, "GET", path, "", `"card":"(redacted)"`).body, "4111222233334444")
	}
}
