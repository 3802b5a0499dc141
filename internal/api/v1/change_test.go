package v1

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ndjson creates a batch.
func (r *rig) ndjson(status int, path, lines string, texts ...string) answer {
	r.t.Helper()
	a := r.ask("POST", path, lines, "Content-Type", "application/x-ndjson")
	require.Equal(r.t, status, a.status, a.body)
	for _, text := range texts {
		require.Contains(r.t, a.body, text)
	}
	return a
}

// TestChanging changes all that can be changed.
func TestChanging(t *testing.T) {
	eachStore(t, func(t *testing.T, r *rig) {
		session := r.join("billing-1", "invoice.send", "account.book")
		changeTasks(t, r)
		changeBatches(r)
		changeSequences(r, session)
		changeMatching(r)
		changeSchedules(r, session)
		changeOthers(r)
		r.meets("POST", "POST /chunks/{name}/cancel", "POST /chunks/{name}/retry", "POST /chunks/{name}/rollback")
		r.meets("DELETE")
	})
}

// created is the id of a task that was enqueued.
func created(t *testing.T, a answer) task.ID {
	t.Helper()
	var made struct{ ID task.ID }
	require.NoError(t, json.Unmarshal([]byte(a.body), &made))
	return made.ID
}

func changeTasks(t *testing.T, r *rig) {
	t.Helper()
	a := r.is(201, "POST", "/tasks", `{"type": "invoice.send", "payload": {"invoice": 7}, "key": "i7", "priority": -3, "labels": {"a": "b"},
		"in": "1h", "max_attempts": 2, "lock": "l", "tenant": "acme", "region": null}`, `{"id":1,"new":true,"answer":"inserted"}`)
	require.Equal(t, "/api/v1/tasks/1", a.header.Get("Location"))
	r.is(200, "GET", "/tasks/1", "", `"created_by":"api"`, `"priority":-3`)
	r.is(200, "POST", "/tasks", `{"type": "invoice.send", "key": "i7"}`, `{"id":1,"new":false,"answer":"kept"}`)
	r.is(200, "POST", "/tasks", `{"type": "invoice.send", "key": "i7", "debounce": "10s", "payload": 8, "created_by": "alice"}`, `"answer":"replaced"`)
	r.is(409, "POST", "/tasks?strict=true", `{"type": "nope"}`, "no running agent declares the type", "nothing was enqueued")
	second := created(t, r.is(201, "POST", "/tasks?strict=true", `{"type": "invoice.send", "after": [1]}`))
	r.is(400, "POST", "/tasks", `{"type": "invoice.send", "after": [77]}`)
	r.is(200, "POST", "/tasks/1/cancel", `{"requested_by": "alice"}`, `{"id":1,"became":"cancelled"}`)
	r.is(200, "POST", "/tasks/1/cancel", "", `"became":"cancelled"`)
	r.is(200, "POST", "/tasks/1/retry", `{}`, `{"id":1,"became":"pending"`)
	r.is(200, "POST", "/tasks/1/rollback", `{"requested_by": null}`, `{"id":1,"became":"cancelled"}`)
	r.is(404, "POST", "/tasks/99/retry", "", "no such task")
	r.is(200, "POST", "/tasks/1/retry", `{"payload": {"n": 2}}`, `"became":"pending"`)
	r.is(409, "POST", "/tasks/1/retry", `{"payload": {"n": 3}}`, "can be retried with another payload")
	r.is(200, "GET", "/tasks/1", "", `"payload":{"n":2}`)
	r.is(200, "POST", "/tasks/1/cancel", "", `"became":"cancelled"`)

	// A key that is live elsewhere keeps a task from being revived.
	third := created(t, r.is(201, "POST", "/tasks", `{"type": "invoice.send", "key": "i7"}`))
	r.is(409, "POST", "/tasks/1/retry", "", "task 1:")

	// A wait ends with the task, or with its time.
	began := time.Now()
	r.is(200, "GET", "/tasks/1/wait", "", `"state":"cancelled"`)
	r.is(200, "GET", fmt.Sprintf("/tasks/%d/wait?timeout=50ms", second), "", `"state":"`)
	require.Less(t, time.Since(began), 5*time.Second)
	r.is(404, "GET", "/tasks/99/wait", "")
	r.is(400, "GET", "/tasks/1/wait?timeout=2m", "", "up to 1m0s")
	cancelled := make(chan error, 1)
	go func() {
		_, err := r.store.Cancel(t.Context(), third, "")
		cancelled <- err
	}()
	r.is(200, "GET", fmt.Sprintf("/tasks/%d/wait?timeout=1m", third), "", `"finished_at":"`)
	require.NoError(t, <-cancelled)
}

func changeBatches(r *rig) {
	r.ndjson(201, "/batches?name=move&type=service.move&on_failure=rollback&finish_type=done&finish_payload=%7B%22a%22%3A1%7D&label=a%3Db&requested_by=alice",
		`{"payload": {"service": 1}, "ref": "a"}`+"\n"+`{"payload": {"service": 2}, "after_ref": "a"}`, `{"batch":1,"tasks":2}`)
	r.is(200, "GET", "/batches/1", "", `"created_by":"alice"`, `"total":2`)
	r.ndjson(200, "/batches?dry_run=true&type=x", "{}\n{}\n{}", `{"tasks":3,"dry_run":true}`)
	r.ndjson(400, "/batches?type=x", "{}\n{\"typ\": 1}", "body:2:2:", "is not a column")
	r.ndjson(400, "/batches", "{}", "the task has no type")
	r.ndjson(400, "/batches?on_failure=nope", "{}", "on_failure")
	open := r.ndjson(201, "/batches?open=true", "", `"tasks":0`)
	r.is(200, "POST", strings.TrimPrefix(open.header.Get("Location"), Prefix)+"/seal", "", `"became":"`)
	r.is(404, "POST", "/batches/99/seal", "")
	r.is(200, "POST", "/batches/1/cancel", `{"dry_run": true}`, `{"batch":1,"tasks":2,"dry_run":true}`)
	r.is(200, "POST", "/batches/1/cancel", `{"requested_by": "bob"}`, `"became":"canc`)
	third := strings.TrimPrefix(r.ndjson(201, "/batches?type=service.move", "{}").header.Get("Location"), Prefix)
	r.is(200, "POST", third+"/retry", "", `"became":"`)
	r.is(200, "POST", third+"/rollback", `{"force": true}`, `"became":"`)
	r.is(404, "POST", "/batches/99/cancel", "")
	r.is(400, "POST", third+"/cancel", `{"force": true}`, "unknown member", "dry_run, requested_by")
}

func changeSequences(r *rig, session task.Session) {
	for range 5 {
		r.enqueue(store.EnqueueRequest{Type: "account.book", Sequence: "7"})
	}
	failed := r.end(session, "account.book", task.StateFailed, task.Failed, "exit code 1")
	r.is(409, "POST", "/sequences/account.book/7/skip", fmt.Sprintf(`{"task_id": %d}`, failed+1))
	r.is(200, "POST", "/sequences/account.book/7/skip", fmt.Sprintf(`{"task_id": %d, "requested_by": "alice"}`, failed), `"became":"skipped"`)
	failed = r.end(session, "account.book", task.StateFailed, task.Failed, "exit code 1")
	r.is(200, "POST", "/sequences/account.book/7/retry", "", fmt.Sprintf(`"task_id":%d,"became":"pending"`, failed))
	r.is(200, "POST", "/sequences/account.book/7/cancel", "", `"became":"cancelled","tasks":4`)
	r.is(404, "POST", "/sequences/account.book/nope/cancel", "")
	r.is(404, "POST", "/sequences/account.book/nope/skip", "")
}

func changeMatching(r *rig) {
	for range 2 {
		r.enqueue(store.EnqueueRequest{Type: "many", In: time.Hour, Labels: map[string]string{"a": "b"}})
	}
	r.is(200, "POST", "/tasks/cancel", `{"type": "many", "labels": {"a": "b"}, "since": "1h", "dry_run": true}`, `{"tasks":2,"dry_run":true}`)
	r.is(200, "POST", "/tasks/retry", `{"type": "many", "dry_run": true}`, `{"tasks":0,"dry_run":true}`)
	r.is(200, "POST", "/tasks/rollback", `{"error_signature": "boom", "dry_run": true}`, `{"tasks":0,"dry_run":true}`)
	a := r.is(202, "POST", "/tasks/cancel", `{"type": "many", "states": ["pending"], "requested_by": "alice", "reason": "moved"}`, `"state":"running"`,
		`"filter":{"type":"many","states":["pending"]}`, `"requested_by":"alice"`)
	place, _ := strings.CutPrefix(a.header.Get("Location"), Prefix)
	_, err := r.api.Bulk.(*batch.Bulk).Step(r.t.Context(), 1)
	require.NoError(r.t, err)
	r.is(200, "GET", place, "", `"done":1`, `"state":"running"`)
	r.is(200, "POST", place+"/stop", `{"requested_by": "bob"}`, `"done":1`, `"state":"stopped"`)
	r.is(404, "GET", "/changes/99", "")
	r.is(404, "POST", "/changes/99/stop", "")
	r.is(400, "GET", "/changes/0", "")
	r.is(400, "POST", "/tasks/cancel", `{}`, "a filter is needed")
	r.is(400, "POST", "/tasks/cancel", `{"states": ["failed"]}`, "cancel does not change such tasks")
	r.is(400, "POST", "/tasks/cancel", `{"states": ["lost"]}`, "there is no such state")
	r.is(400, "POST", "/tasks/cancel", `{"labels": {"a": 1}}`, "an object of strings")
	r.is(400, "POST", "/tasks/cancel", `{"type": "a", "since": "yesterday"}`, "since must be an age")
}

func changeSchedules(r *rig, session task.Session) {
	r.schedules(session, schedule.Spec{Name: "nightly/1", Task: "report", Cron: "0 3 * * *"})
	r.is(200, "POST", "/schedules/nightly%2F1/fire", `{"requested_by": "alice"}`, `"inserted":1`)
	r.is(200, "POST", "/schedules/nightly%2F1/pause", "", `"became":"paused"`)
	r.is(200, "GET", "/schedules/nightly%2F1", "", `"paused_by":"api"`)
	r.is(200, "POST", "/schedules/nightly%2F1/resume", "", `"became":"resumed"`)
	r.is(200, "POST", "/schedules/nightly%2F1/resume", "", `"became":"was not paused"`)
	r.is(409, "DELETE", "/schedules/nightly%2F1?requested_by=alice", "")
	r.is(404, "POST", "/schedules/nope/fire", "")
	const backfill = "/schedules/nightly%2F1/backfill"
	r.is(200, "POST", backfill, `{"from": "2026-11-01T00:00:00Z", "to": "2026-11-03T00:00:00Z", "dry_run": true}`,
		`"slots":["2026-11-01T03:00:00Z","2026-11-02T03:00:00Z"],"dry_run":true`)
	r.is(200, "GET", "/tasks?type=report", "", `"slot":"`)
	before := strings.Count(r.is(200, "GET", "/tasks?type=report", "").body, `"slot"`)
	r.is(200, "POST", backfill, `{"from": "2026-11-01T00:00:00Z", "to": "2026-11-03T11:00:00+08:00", "requested_by": "alice"}`, `"inserted":2}`)
	require.Equal(r.t, before+2, strings.Count(r.is(200, "GET", "/tasks?type=report", "").body, `"slot"`))
	r.is(400, "POST", backfill, `{"from": "2026-11-01T00:00:00Z", "to": "2026-11-03T00:00:00Z", "limit": 1}`, "more than 1 slots", "a higher limit")
	r.is(400, "POST", backfill, `{"from": "2026-11-03T00:00:00Z", "to": "2026-11-01T00:00:00Z"}`, "is not before")
	r.is(400, "POST", backfill, `{"from": "yesterday", "to": "2026-11-01T00:00:00Z"}`, "from must be a time")
	r.is(400, "POST", backfill, `{"from": "2026-11-03T00:00:00Z"}`, "to is missing")
	r.is(400, "POST", backfill, `{"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T00:00:00Z", "limit": 100001}`, "use 1 to 100000")
	r.is(400, "POST", backfill, `{"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T00:00:00Z", "limit": 100000}`, "more than 100000 slots")
	r.is(404, "POST", "/schedules/nope/backfill", `{"from": "2026-11-01T00:00:00Z", "to": "2026-11-03T00:00:00Z"}`)
	require.NoError(r.t, r.store.Leave(r.t.Context(), session))
	r.is(200, "DELETE", "/schedules/nightly%2F1", "", `"became":"removed"`)
	r.is(404, "DELETE", "/schedules/nightly%2F1", "")
}

func changeOthers(r *rig) {
	session := r.join("billing-2", "invoice.send")
	r.is(200, "POST", "/agents/billing-2/cordon", `{"requested_by": "alice"}`, `"state":"cordoned"`, `"changed":true`)
	r.is(200, "POST", fmt.Sprintf("/agents/%d/uncordon", session), "", `"state":"working"`)
	r.is(200, "POST", "/agents/billing-2/drain", "", `"state":"draining"`)
	r.is(404, "POST", "/agents/nope/drain", "", "is present")
	r.is(200, "POST", "/pauses/invoice.send/pause", `{"reason": "the bank is down", "requested_by": "alice"}`, `"changed":true`, `"by":"alice"`)
	r.is(200, "POST", "/pauses/invoice.send/resume", "", `"paused":false`)
	r.is(400, "POST", "/pauses/invoice.send/resume", `{"reason": "x"}`, "unknown member")
	r.is(400, "POST", "/pauses/invoice.send/pause", `{"requested_by": "`+strings.Repeat("x", 513)+`"}`, "512 bytes at most")

	r.enqueue(store.EnqueueRequest{Type: "old"})
	r.enqueue(store.EnqueueRequest{Type: "old"})
	r.is(200, "POST", "/orphans/old/move", `{"into": "new", "dry_run": true}`, `"changed":2`, `"dry_run":true`)
	r.is(200, "POST", "/orphans/old/move", `{"into": "new", "reason": "renamed"}`, `{"type":"old","into":"new","changed":2}`)
	r.is(200, "POST", "/orphans/new/cancel", "", `"changed":2`)
	r.is(400, "POST", "/orphans/old/move", `{}`, "into is missing")
	r.is(409, "POST", "/orphans/invoice.send/cancel", "")

	_, err := r.store.DeclareChunks(r.t.Context(), session, []store.ChunkDeclaration{{Spec: store.ChunkSpec{
		Name: "events", Task: "event", Table: "event", Key: "id", Size: store.ChunkSize{Start: 10, Min: 1, Max: 100}, Ahead: 1,
	}}})
	require.NoError(r.t, err)
	r.is(200, "POST", "/chunks/events/pause", `{"requested_by": "alice"}`, `"became":"paused"`)
	r.is(200, "GET", "/chunks/events", "", `"paused_by":"alice"`)
	r.is(200, "POST", "/chunks/events/resume", "", `"became":"resumed"`)
	r.is(400, "POST", "/chunks/events/cancel", "", "no pass has a batch")
	r.is(400, "POST", "/chunks/events/retry", `{"pass": -1}`, "passes count from 1")
	r.is(404, "POST", "/chunks/nope/rollback", `{"force": false}`)
}

// TestIdempotencyKey repeats a request after its answer was lost: while the task waits, runs and has ended.
func TestIdempotencyKey(t *testing.T) {
	eachStore(t, func(t *testing.T, r *rig) {
		session := r.join("billing-1", "invoice.send")
		const body = `{"type": "invoice.send", "payload": {"invoice": 7}}`
		ask := func(status int, body, key string) answer {
			t.Helper()
			a := r.ask("POST", "/tasks", body, idempotencyKey, key)
			require.Equal(t, status, a.status, a.body)
			return a
		}
		ask(201, body, "order-7")
		require.Contains(t, ask(200, body, `"order-7"`).body, `{"id":1,"new":false,"answer":"kept"}`)
		require.EqualValues(t, 1, r.end(session, "invoice.send", task.StateSucceeded, task.Succeeded, ""))
		require.Contains(t, ask(200, body, "order-7").body, `{"id":1,"new":false,"answer":"kept"}`, "it has finished")
		ask(201, `{"type": "other"}`, "order-7")
		again := created(t, r.is(201, "POST", "/tasks", `{"type": "invoice.send", "key": "order-7"}`)) // the key alone is free again
		require.Equal(t, again, created(t, ask(200, body, "order-7")))
		require.Contains(t, ask(400, `{"type": "invoice.send", "key": "x"}`, "order-7").body, "differ")
		require.Contains(t, ask(400, `{"type": "invoice.send", "on_live": "again"}`, "order-7").body, "leave out on_live")
		require.Contains(t, ask(400, body, strings.Repeat("x", 256)).body, "1 to 255 bytes")
		require.Contains(t, ask(400, body, `""`).body, "1 to 255 bytes")
		require.Contains(t, r.ask("POST", "/tasks/1/cancel", "", idempotencyKey, "x").body, "is taken only with POST /api/v1/tasks")
		var all struct{ Tasks []struct{ ID int } }
		require.NoError(t, json.Unmarshal([]byte(r.is(200, "GET", "/tasks?type=invoice.send", "").body), &all))
		require.Len(t, all.Tasks, 2)
	})
}

// TestWrongBodies refuses bodies that cannot be meant.
func TestWrongBodies(t *testing.T) {
	r := onSQLite(t)
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for body, text := range map[string]string{
		``: "the body must be a task", ` `: "a task is an object", `[]`: "a task must be an object", `{`: "this is not JSON",
		`{"type": "x"} {"type": "y"}`: "this is not JSON", `{"type": "x", "type": "y"}`: `\"type\" occurs twice`,
		`{"Type": "x"}`: "is not a column", `{"type": 7}`: "type must be a string", `{"payload": {}}`: "the task has no type",
		"{\n  \"type\": \"x\",\n  \"prio\": 1}": "body:3:3:", `{"type": "x", "payload": ` + deep + `}`: "this is not JSON",
		`{"type": "x", "after": [9223372036854775808]}`: "after must be a list of ids", `{"type": "x", "batch": 1e3}`: "batch must be",
		`{"type": "x", "in": "-5m"}`: "in must be a duration", `{"type": "x", "in": 5}`: "in must be a duration",
		`{"type": "x", "payload": "\u0000"}`: "NUL character", `{"type": "x\u0000"}`: "letter or digit", "{\"type\": \"\xff\"}": "not UTF-8",
		`{"type": "x", "ref": "a"}`: "is not a column", `{"type": "x", "priority": 11}`: "use -10 to 10",
		`{"type": "x", "run_at": "tomorrow"}`: "run_at must be a time", `{"type": "x", "created_by": "\u0000"}`: "NUL",
	} {
		r.is(400, "POST", "/tasks", body, text)
	}
	for body, text := range map[string]string{
		`[]`: "must be an object", `{`: "not JSON", `{"requested_by": 1}`: "requested_by must be a string", `{} {}`: "not JSON",
		`{"requested_by": "a", "requested_by": "b"}`: "occurs twice", `{"Requested_By": "a"}`: "unknown member",
		`{"requested_by": "a\u0000"}`: "UTF-8 without NUL", `{"x": "` + "\u2028\r\nSet-Cookie: a" + `"}`: "not JSON",
		`"x"`: "must be an object", deep[:8000]: "not JSON", "\xff": "not UTF-8",
	} {
		r.is(400, "POST", "/tasks/1/cancel", body, text)
	}
	r.is(413, "POST", "/tasks/1/cancel", `{"requested_by": "`+strings.Repeat("x", maxVerb)+`"}`, "larger than 16")
	r.is(413, "POST", "/tasks", `{"type": "x", "payload": "`+strings.Repeat("x", maxTask)+`"}`, "larger than 8")
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "", "application/json; charset=\"", "multipart/form-data"} {
		require.Equal(t, http.StatusUnsupportedMediaType, r.ask("POST", "/tasks", `{"type": "x"}`, "Content-Type", media).status, media)
		require.Equal(t, http.StatusUnsupportedMediaType, r.ask("POST", "/batches?type=x", `{}`, "Content-Type", media).status, media)
	}
	require.Equal(t, 201, r.ask("POST", "/tasks", `{"type": "x"}`, "Content-Type", "application/json; charset=utf-8").status)
	require.Equal(t, 400, r.ask("GET", "/tasks", `{"type": "x"}`).status, "a body that would be ignored")
}
