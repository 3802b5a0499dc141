package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// TestStreamsBeat follows what never changes to the end of the longest stream, and what has an error, and is left by its client.
func TestStreamsBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		follow := func(ctx context.Context, next func(context.Context) (string, bool, error)) (text string, took time.Duration) {
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			c := &call{w: w, r: httptest.NewRequestWithContext(ctx, http.MethodGet, Prefix+"/events", http.NoBody), ctx: ctx}
			defer c.release()
			began := time.Now()
			body, err := c.follow(time.Second, next) //nolint:contextcheck // it has the request's
			require.NoError(t, err)
			require.Equal(t, answered, body)
			require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
			return strings.TrimPrefix(w.Body.String(), "retry: 2000\n\n"), time.Since(began)
		}
		calls := 0
		text, took := follow(t.Context(), func(context.Context) (string, bool, error) { calls++; return "", true, nil })
		require.Equal(t, longestFeed, took)
		require.Empty(t, strings.ReplaceAll(text, ":\n\n", ""))
		require.InDelta(t, longestFeed/beatEvery, strings.Count(text, ":"), 1, "a proxy in between closes no stream that beats")
		require.InDelta(t, longestFeed/time.Second, calls, 1)

		text, took = follow(t.Context(), func(context.Context) (string, bool, error) { return "", true, errors.New("no store") })
		require.Empty(t, text)
		require.Zero(t, took)

		text, _ = follow(t.Context(), func(context.Context) (string, bool, error) { return event("gone", []byte("1\xff")), false, nil })
		require.Equal(t, "event: gone\ndata: 1\ufffd\n\n", text)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, took = follow(ctx, func(context.Context) (string, bool, error) { return "", true, nil })
		require.Equal(t, time.Minute, took)
	})
}

// TestStreamsOfTasksAreBounded opens as many streams of a task as there may be streams, and one more.
func TestStreamsOfTasksAreBounded(t *testing.T) {
	s := serve(t, "geheim", true)
	path := fmt.Sprintf("/tasks/%d/events", s.enqueue(store.EnqueueRequest{Type: "x"}))
	for range mostStreams {
		require.NoError(t, s.follow(path, "geheim")("event: task"))
	}
	const after = " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer geheim\r\nConnection: close\r\n\r\n"
	for _, path := range []string{path, "/events"} {
		resp, body := s.send("GET " + Prefix + path + after)
		require.Equal(t, 503, resp.StatusCode)
		require.Contains(t, body, "busy")
	}
	resp, _ := s.send("GET " + Prefix + "/tasks/99/events" + after)
	require.Equal(t, 503, resp.StatusCode, "it asks nothing of the store")
	resp, _ = s.send("GET " + Prefix + "/tasks" + after)
	require.Equal(t, 200, resp.StatusCode, "they keep no requests out")
	require.Len(t, s.api.watched.ids(), 1)
}

// unreadable is a store that cannot be read from the moment on at which a task was looked at alone.
type unreadable struct {
	Store

	from   task.ID
	broken atomic.Bool
	failed atomic.Int64
}

func (u *unreadable) Glance(ctx context.Context, ids []task.ID) ([]store.Glance, error) {
	if u.broken.Load() {
		u.failed.Add(1)
		return nil, errors.New("out of reach")
	}
	u.broken.Store(len(ids) == 1 && ids[0] == u.from)
	return u.Store.Glance(ctx, ids)
}

// TestStreamsOutlastTheStore begins to follow a task just before the store is out of reach: what was seen before that knows nothing of it.
func TestStreamsOutlastTheStore(t *testing.T) {
	s := serve(t, "", false)
	first, second := s.enqueue(store.EnqueueRequest{Type: "x"}), s.enqueue(store.EnqueueRequest{Type: "x"})
	broken := &unreadable{Store: s.store, from: second}
	s.api.Store = broken
	one := s.follow(fmt.Sprintf("/tasks/%d/events", first), "")
	require.NoError(t, one(`"state":"pending"`))
	_, err := s.store.Cancel(t.Context(), first, "")
	require.NoError(t, err)
	require.NoError(t, one(`"state":"cancelled"`)) // what was seen is kept for all
	two := s.follow(fmt.Sprintf("/tasks/%d/events", second), "")
	require.NoError(t, two(`"state":"pending"`))
	require.Eventually(t, func() bool { return broken.failed.Load() > 2 }, 20*time.Second, 10*time.Millisecond)
	_, err = s.store.Cancel(t.Context(), second, "")
	require.NoError(t, err)
	broken.from = 0
	broken.broken.Store(false)
	require.NoError(t, two(`"state":"cancelled"`), "it was not said to be gone")
}

// TestCountsEnd counts a table while others ask, until the agent ends, and until the client has gone.
func TestCountsEnd(t *testing.T) {
	s := serve(t, "", false)
	session := s.join("billing-1", "event")
	_, err := s.store.DeclareChunks(t.Context(), session, []store.ChunkDeclaration{{Spec: store.ChunkSpec{
		Name: "events", Task: "event", Table: "event", Key: "id", Size: store.ChunkSize{Start: 10, Min: 1, Max: 100}, Ahead: 5,
	}}})
	require.NoError(t, err)
	counting, ended := make(chan struct{}), make(chan error, 1)
	s.api.CountChunks = func(ctx context.Context, _ *ops.ChunkProof) (ops.ChunkLeft, error) {
		counting <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ops.ChunkLeft{}, ctx.Err()
	}
	gone, leave := context.WithCancel(t.Context())
	req := httptest.NewRequestWithContext(gone, http.MethodGet, "http://localhost"+Prefix+"/chunks/events/verify", http.NoBody)
	got := make(chan answer, 1)
	go func() { got <- s.raw(req) }()
	<-counting
	free := s.api.bounds.calls.TryAcquire(mostCalls)
	require.True(t, free, "what reads another table takes no turn of the store")
	s.api.bounds.calls.Release(mostCalls)
	leave()
	require.Error(t, <-ended)
	require.NotEqual(t, 200, (<-got).status)

	began := time.Now()
	go func() {
		resp, body := s.send("GET " + Prefix + "/chunks/events/verify?timeout=2m HTTP/1.1\r\nHost: localhost\r\n\r\n")
		got <- answer{status: resp.StatusCode, body: body}
	}()
	<-counting
	require.NoError(t, s.done())
	require.ErrorIs(t, <-ended, context.Canceled)
	a := <-got
	require.Equal(t, 200, a.status)
	require.Contains(t, a.body, "was not read to its end")
	require.Less(t, time.Since(began), 5*time.Second)
}

// TestBackfillIsBounded asks for more slots than there may be, for times that no document has, and outlasts the listener.
func TestBackfillIsBounded(t *testing.T) {
	r := onSQLite(t)
	session := r.join("billing-1", "report")
	r.schedules(session, schedule.Spec{Name: "minutely", Task: "report", Cron: "* * * * *"},
		schedule.Spec{Name: "leap", Task: "report", Cron: "0 0 29 2 *"})
	const path = "/schedules/minutely/backfill"
	span := func(from, to, more string) string {
		return `{"from": "` + from + `", "to": "` + to + `", "dry_run": true` + more + `}`
	}
	r.is(400, "POST", path, span("2026-11-01T00:00:00Z", "2026-11-01T16:41:00Z", ""), "more than 1000 slots")
	require.Equal(t, 1000, strings.Count(r.is(200, "POST", path, span("2026-11-01T00:00:00Z", "2026-11-01T16:40:00Z", "")).body, "Z\""))
	for _, limit := range []string{"0", "-1", "100001"} {
		r.is(400, "POST", path, span("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", `, "limit": `+limit), "use 1 to 100000")
	}
	r.is(200, "POST", path, span("9999-12-31T23:58:00Z", "9999-12-31T23:59:59-14:00", ""), `"slots":["9999-12-31T23:58:00Z","9999-12-31T23:59:00Z"]`)
	r.is(200, "POST", path, span("0000-01-01T00:00:00+14:00", "0000-01-01T00:10:00+14:00", ""), `"dry_run":true`)
	began := time.Now()
	r.is(200, "POST", "/schedules/leap/backfill", span("0001-01-01T00:00:00Z", "9999-12-31T00:00:00Z", `, "limit": 100000`), "0004-02-29T00:00:00Z")
	require.Less(t, time.Since(began), 5*time.Second)
	r.is(413, "POST", path, span("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", `, "requested_by": "`+strings.Repeat("x", maxVerb)+`"`))
	r.is(400, "POST", path, `{"from": "2026-11-01T00:00:00Z", "to": "2026-11-01T00:02:00Z", "requested_by": "`+strings.Repeat("x", 513)+`"}`, "512 bytes")

	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	body := `{"from": "2026-11-01T00:00:00Z", "to": "2026-11-01T00:02:00Z"}`
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Prefix+path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	r.api.ServeHTTP(w, req)
	require.Equal(t, 200, w.Code, w.Body)
	require.Greater(t, time.Until(w.write), requestTimeout+writeMargin)
	require.True(t, r.api.bounds.long.TryAcquire(mostLong))
	r.is(503, "POST", path, body, "busy")
}

// TestPagesAreInTheOrderOfBytes has a list in the order of a server's language.
func TestPagesAreInTheOrderOfBytes(t *testing.T) {
	list := func() []string { return []string{"a", "B", "é", "z", "A"} }
	var all []string
	for from := ""; len(all) < 5; {
		page, next := named(list(), func(s string) string { return s }, from, 2)
		all, from = append(all, page...), next
		require.Equal(t, len(all) == 5, next == "")
	}
	require.Equal(t, []string{"A", "B", "a", "z", "é"}, all)
}

// TestPagesByName reads lists that the store gives as a whole, a page of one at a time.
func TestPagesByName(t *testing.T) {
	r := onSQLite(t)
	r.join("billing-1", "invoice.send")
	for _, region := range []string{"sg", "ap", "eu/1 &x"} {
		r.enqueue(store.EnqueueRequest{Type: "invoice.send", Region: region})
		r.enqueue(store.EnqueueRequest{Type: "gone." + region[:2]})
		_, err := r.store.PauseType(t.Context(), "t "+region, "", "")
		require.NoError(t, err)
	}
	for list, names := range map[string][]string{
		"regions": {`"region":"ap"`, `"region":"eu/1 \u0026x"`, `"region":"sg"`},
		"orphans": {`"type":"gone.ap"`, `"type":"gone.eu"`, `"type":"gone.sg"`},
		"pauses":  {`"type":"t ap"`, `"type":"t eu/1 \u0026x"`, `"type":"t sg"`},
	} {
		path := "/" + list + "?limit=1"
		for n, name := range names {
			require.NotEmpty(t, path, name)
			a := r.is(200, "GET", path, "", name)
			require.Equal(t, n == len(names)-1, !strings.Contains(a.body, `"next"`), a.body)
			for _, other := range names {
				require.Equal(t, other == name, strings.Contains(a.body, other), a.body)
			}
			_, path = page(t, a, list)
		}
		r.is(400, "GET", "/"+list+"?limit=501", "")
		r.is(400, "GET", "/"+list+"?from=%ff", "")
		r.is(200, "GET", "/"+list+"?from=%F4%8F%BF%BF", "", `"`+list+`":[]`)
	}
}
