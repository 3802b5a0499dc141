package web

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqlite"
	"github.com/leasehold/leasehold/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted is a store that counts what pages read of it.
type counted struct {
	*sqlite.Store
	reads  atomic.Int64
	counts atomic.Int64  // of the reads
	held   chan struct{} // while it is not nil and open, counts wait
}

func (c *counted) Counts(ctx context.Context) (store.Stats, error) {
	c.reads.Add(1)
	c.counts.Add(1)
	if c.held != nil {
		<-c.held
	}
	return c.Store.Counts(ctx)
}

func (c *counted) List(ctx context.Context, f store.TaskFilter) ([]store.TaskInfo, error) {
	c.reads.Add(1)
	return c.Store.List(ctx, f)
}

// rig is a dashboard on a store.
type rig struct {
	t     *testing.T
	store *counted
	web   *Dashboard
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "leasehold.db"), Create: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	_, err = s.Migrator().Up(t.Context())
	require.NoError(t, err)
	r := &rig{t: t, store: &counted{Store: s}}
	r.web = New(Options{
		Store: r.store, Bulk: batch.NewBulk(s, ops.NamedSignature), Log: slog.New(slog.DiscardHandler), Agent: "billing-1", Where: "sqlite:x",
		Checkups: ops.NewCheckups(s), Histories: &ops.Histories{},
	})
	return r
}

// enqueue inserts a task.
func (r *rig) enqueue(q store.EnqueueRequest) task.ID {
	r.t.Helper()
	id, _, err := r.store.Enqueue(r.t.Context(), q)
	require.NoError(r.t, err)
	return id
}

// send sends a request; header are names and values in turn.
func (r *rig) send(method, path, form string, header ...string) *httptest.ResponseRecorder {
	r.t.Helper()
	q := httptest.NewRequestWithContext(r.t.Context(), method, "http://localhost:7070"+path, strings.NewReader(form))
	if form != "" {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.web.ServeHTTP(w, q)
	return w
}

// get reads a page.
func (r *rig) get(status int, path string, texts ...string) string {
	r.t.Helper()
	w := r.send("GET", path, "")
	require.Equal(r.t, status, w.Code, "%s: %s", path, w.Body)
	for _, text := range texts {
		require.Contains(r.t, w.Body.String(), text, path)
	}
	return w.Body.String()
}

// TestHostileRow shows what a row has as text, in every place.
func TestHostileRow(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	r := newRig(t)
	id := r.enqueue(store.EnqueueRequest{
		Type: evil, Key: evil, Payload: json.RawMessage(`{"a": "` + strings.ReplaceAll(evil, `"`, `\"`) + `\u001b[2J\u202e"}`),
		Labels: map[string]string{evil: evil}, Lock: evil, CreatedBy: evil,
	})
	for _, path := range []string{"/", "/tasks", "/types", "/types/" + url.PathEscape(evil), "/flow", "/doctor", "/tasks/1"} {
		page := r.get(200, path, "&lt;script&gt;")
		require.NotContains(t, page, "<script>alert", path)
		require.NotContains(t, page, "<img", path)
		require.NotContains(t, page, "\x1b", path)
	}
	require.EqualValues(t, 1, id)
	page := r.get(200, "/tasks?type="+url.QueryEscape(evil), "&lt;script&gt;")
	require.NotContains(t, page, "<script>alert")
}

// TestLostAttempt names the agent that an attempt ran on, and the one that reaped it.
func TestLostAttempt(t *testing.T) {
	const evil = `one"><script>alert(1)</script>`
	r := newRig(t)
	ctx := t.Context()
	id := r.enqueue(store.EnqueueRequest{Type: "x"})
	join := func(name string) task.Session {
		s, err := r.store.Join(ctx, store.Agent{Name: name, Workers: 1, Types: []string{"x"}, Presence: time.Hour})
		require.NoError(t, err)
		return s
	}
	one, two := join(evil), join("two")
	_, err := r.store.Claim(ctx, store.Claim{Session: one, Number: 1, Wants: []store.Want{{Type: "x", Phase: task.Run, N: 1, Window: time.Hour}}})
	require.NoError(t, err)
	require.NoError(t, r.store.Leave(ctx, one))
	lost, err := r.store.Sweep(ctx, two, 1, time.Minute, func() store.View { return store.View{Now: time.Now(), Calm: time.Hour} })
	require.NoError(t, err)
	require.Len(t, lost, 1)
	answers, err := r.store.Settle(ctx, two, []store.Settlement{{
		ID: id, Fence: lost[0].Fence, RanFence: lost[0].RanFence, Phase: task.Run, Attempt: 1, Started: -1, Outcome: task.Outcome{Verdict: task.Lost},
		Next: task.Transition{State: task.StateFailed, Attempt: 1, EverStarted: true},
	}})
	require.NoError(t, err)
	require.Equal(t, []store.Answer{store.Applied}, answers)
	page := r.get(200, fmt.Sprintf("/tasks/%d", id), "&lt;/script&gt;, reaped by two</td>", "<th>agent</th><td>one&#34;&gt;&lt;script&gt;")
	require.NotContains(t, page, "<script>alert")
}

// TestHeaders has every answer say what a browser may do with it.
func TestHeaders(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/", "/tasks/7", "/nowhere", "/sign-in", assetPath("style.css")} {
		h := r.send("GET", path, "").Header()
		require.Equal(t, policy, h.Get("Content-Security-Policy"), path)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"), path)
	}
	page := r.get(200, "/")
	require.NotContains(t, page, "style=", "the policy forbids styles in a page")
	require.NotContains(t, page, " onclick", "and scripts")
	require.NotContains(t, page, "http://", "nothing is loaded from elsewhere")
	require.NotContains(t, page, "https://")
	w := r.send("GET", assetPath("live.js"), "")
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Header().Get("Content-Type"), "javascript")
	require.Contains(t, w.Header().Get("Cache-Control"), "immutable")
	require.Equal(t, 404, r.send("GET", "/assets/000000000000/live.js", "").Code)
	require.Equal(t, 404, r.send("GET", "/assets/"+assetHashes["live.js"]+"/..%2Fweb.go", "").Code)
}

// TestForeignSites can neither load a page's parts nor send a form.
func TestForeignSites(t *testing.T) {
	r := newRig(t)
	id := r.enqueue(store.EnqueueRequest{Type: "x"})
	require.Equal(t, 403, r.send("GET", "/tasks", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image").Code)
	require.Equal(t, 403, r.send("GET", "/tasks", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe").Code)
	require.Equal(t, 200, r.send("GET", "/tasks", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document").Code,
		"a link is followed")
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "http://evil.example"}, {"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
	} {
		w := r.send("POST", "/tasks/1/cancel", "x=1", header...)
		require.Equal(t, 403, w.Code, "%v", header)
	}
	got, err := r.store.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, task.StatePending, got.State)
	require.Equal(t, 303, r.send("POST", "/tasks/1/cancel", "x=1", "Origin", "http://localhost:7070", "Sec-Fetch-Site", "same-origin").Code)
}

// TestForms refuses what no page sends.
func TestForms(t *testing.T) {
	r := newRig(t)
	r.enqueue(store.EnqueueRequest{Type: "x"})
	require.Equal(t, 400, r.send("POST", "/tasks/1/cancel", "", "Content-Type", "application/json").Code)
	require.Equal(t, 400, r.send("POST", "/tasks/1/cancel", "x="+strings.Repeat("y", maxForm)).Code)
	require.Equal(t, 400, r.send("POST", "/tasks/1/eat", "x=1").Code)
	require.Equal(t, 405, r.send("PUT", "/tasks/1/cancel", "x=1").Code)
	require.Equal(t, 404, r.send("POST", "/agents/nobody/drain", "x=1").Code)
	require.Equal(t, "/tasks/1?said=unchanged", r.send("POST", "/tasks/1/retry", "x=1").Header().Get("Location"), "it waits already")
	w := r.send("POST", "/tasks/1/rollback", "x=1")
	require.Equal(t, 409, w.Code)
	require.Contains(t, w.Body.String(), "Refused")
	require.Equal(t, 400, r.send("POST", "/changes", "verb=cancel").Code, "a filter is needed")
	require.Equal(t, 400, r.send("POST", "/sequences/x/y/skip", "task=z").Code)
	require.Equal(t, 400, r.send("POST", "/settings", "name="+strings.Repeat("y", mostName+1)).Code)
	w = r.send("POST", "/settings", "theme=dark&name=Grace+%3Cx%3E&back=//evil.example")
	require.Equal(t, 303, w.Code)
	require.Equal(t, "/", w.Header().Get("Location"), "it leads to no other site")
	for _, c := range w.Result().Cookies() {
		require.True(t, c.HttpOnly)
		require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	}
	w = r.send("GET", "/", "", "Cookie", "leasehold_theme=dark; leasehold_name=Grace+%3Cx%3E")
	require.Contains(t, w.Body.String(), `data-theme="dark"`)
	require.Contains(t, w.Body.String(), `value="Grace &lt;x&gt;"`)
	w = r.send("GET", "/", "", "Cookie", `leasehold_theme="><script>; leasehold_name=%zz`)
	require.Contains(t, w.Body.String(), `data-theme="auto"`)
}

// TestManyLook reads a page once for all who look at once, and no more often than it changes.
func TestManyLook(t *testing.T) {
	r := newRig(t)
	r.enqueue(store.EnqueueRequest{Type: "x"})
	r.get(200, "/")
	alone := r.store.reads.Swap(0)
	require.Positive(t, alone)
	r.store.counts.Store(0)
	r.web.shared.forget()
	r.store.held = make(chan struct{})
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if w := r.send("GET", "/", ""); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	require.Eventually(t, func() bool { return r.store.counts.Load() == 1 }, 20*time.Second, time.Millisecond)
	close(r.store.held)
	all.Wait()
	require.Equal(t, alone, r.store.reads.Load(), "a hundred cost what one does")
}

// TestFewAtOnce has no more pages read at once than there are places, and says so in time.
func TestFewAtOnce(t *testing.T) {
	r := newRig(t)
	r.store.held = make(chan struct{})
	var all sync.WaitGroup
	for i := range 2 * ownAtOnce { // of which some wait
		all.Go(func() { r.send("GET", "/types?n="+string(rune('a'+i)), "") })
	}
	require.Eventually(t, func() bool { return r.store.counts.Load() == ownAtOnce }, 20*time.Second, time.Millisecond)
	for _, path := range []string{"/", "/flow"} {
		all.Go(func() { r.send("GET", path, "") })
	}
	require.Eventually(t, func() bool { return r.store.counts.Load() == mostAtOnce }, 20*time.Second, time.Millisecond)
	w := r.send("GET", "/types", "")
	require.Equal(t, 503, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), "busy")
	close(r.store.held)
	all.Wait()
	r.get(200, "/types")
}

// TestClientGoes lets others have the page that one who has gone was the first to ask for.
func TestClientGoes(t *testing.T) {
	r := newRig(t)
	r.store.held = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() {
		r.web.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "http://localhost/types", http.NoBody))
	})
	require.Eventually(t, func() bool { return r.store.reads.Load() == 1 }, 20*time.Second, time.Millisecond)
	cancel()
	var second sync.WaitGroup
	second.Go(func() { r.get(200, "/types") })
	close(r.store.held)
	first.Wait()
	second.Wait()
}

// TestPartAlone answers with the main part, which is what a page asks for again.
func TestPartAlone(t *testing.T) {
	r := newRig(t)
	w := r.send("GET", "/types", "", "X-Leasehold-Part", "main")
	require.Equal(t, 200, w.Code)
	require.NotContains(t, w.Body.String(), "<html")
	require.Contains(t, w.Body.String(), "<h1>Types</h1>")
}

// TestChangeIsSeen shows what a change has made at once, although the page was read a moment ago.
func TestChangeIsSeen(t *testing.T) {
	r := newRig(t)
	r.enqueue(store.EnqueueRequest{Type: "x"})
	r.get(200, "/tasks/1", "pending")
	w := r.send("POST", "/tasks/1/cancel", "x=1")
	require.Equal(t, "/tasks/1?said=cancelled", w.Header().Get("Location"))
	r.get(200, "/tasks/1", "cancelled")
	r.get(200, "/tasks/1?said=cancelled", "Done: cancelled")
	require.NotContains(t, r.get(200, "/tasks/1?said=hacked"), "hacked", "only what can become of a task")
}

// TestGroupFailures counts what failed alike.
func TestGroupFailures(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) *time.Time { t := now.Add(-ago); return &t }
	groups := groupFailures([]ops.Task{
		{ID: 9, Type: "a", Error: "status 500 of request 17", FinishedAt: at(time.Hour)},
		{ID: 8, Type: "b", Error: "status 500 of request 17", FinishedAt: at(time.Minute)},
		{ID: 7, Type: "a", Error: "status 500 of request 4", FinishedAt: at(time.Minute)},
		{ID: 6, Type: "a", Error: "status 500 of request 4", FinishedAt: at(8 * 24 * time.Hour)},
		{ID: 5, Type: "a", Error: "never", FinishedAt: nil},
	}, now)
	require.Len(t, groups, 2)
	require.Equal(t, "a", groups[0].Type)
	require.EqualValues(t, 2, groups[0].N)
	require.EqualValues(t, 9, groups[0].Example)
	require.Equal(t, *at(time.Hour), groups[0].First)
	require.Equal(t, *at(time.Minute), groups[0].Last)
	require.Equal(t, "error-signature=status+500+of+request+%23&state=failed&type=a", groups[0].Query())
}

// TestTimeline draws attempts where they were.
func TestTimeline(t *testing.T) {
	began := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	at := func(s int) *time.Time { t := began.Add(time.Duration(s) * time.Second); return &t }
	i := &ops.Task{
		CreatedAt: began, State: task.StateRunning, ClaimedAt: at(80), History: []store.AttemptInfo{
			{Phase: task.Run, Attempt: 1, Outcome: task.Failed, StartedAt: at(10), EndedAt: *at(30), State: task.StateRetryPending},
			{Phase: task.Run, Attempt: 1, Outcome: task.Drained, EndedAt: *at(40), State: task.StatePending},
		},
	}
	l := timelineOf(i, *at(100))
	require.Equal(t, 100*time.Second, l.Took)
	require.Len(t, l.Bars, 2, "what never started is not drawn")
	require.InDelta(t, 100, l.Bars[0].X, 0.1)
	require.InDelta(t, 200, l.Bars[0].Width, 0.1)
	require.Equal(t, "bad", l.Bars[0].Tone)
	require.InDelta(t, 800, l.Bars[1].X, 0.1)
	require.Equal(t, "busy", l.Bars[1].Tone)
	require.Empty(t, timelineOf(&ops.Task{CreatedAt: began}, began).Bars)
}

// TestChart draws what was counted, whatever there is.
func TestChart(t *testing.T) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	quick, slow := 0.002, 0.5
	a := &ops.Activity{Span: ops.LastHour, Now: at.Add(3 * time.Minute), Intervals: []ops.ActivityInterval{
		{At: at, ActivityCounts: ops.ActivityCounts{
			Ended: 10, Outcomes: map[task.Verdict]int64{task.Succeeded: 6, task.Failed: 3, task.Drained: 1}, P50: &quick, P95: &slow,
		}},
		{At: at.Add(time.Minute), ActivityCounts: ops.ActivityCounts{Outcomes: map[task.Verdict]int64{}}},
		{At: at.Add(2 * time.Minute), ActivityCounts: ops.ActivityCounts{
			Ended: 5, Outcomes: map[task.Verdict]int64{task.Succeeded: 5}, P50: &quick, P95: &quick,
		}},
	}}
	c := chartOf(a)
	require.EqualValues(t, 10, c.Most)
	require.EqualValues(t, 3, c.Failed)
	require.Equal(t, "12:00: 10 ended, 3 failed; 95% started within 500 ms", c.Columns[0].Title)
	require.Len(t, c.Columns[0].Parts, 3)
	require.Equal(t, block{0, 48, 1000.0 / 3 * columnShare, 72, "good"}, c.Columns[0].Parts[0])
	require.InDelta(t, 0, c.Columns[0].Parts[2].Y, 0.01, "the highest column is as high as the chart")
	require.Empty(t, c.Columns[1].Parts)
	require.InDelta(t, 60, c.Columns[2].Parts[0].Height, 0.01)
	require.Equal(t, "1.0 ms", c.Quickest)
	require.Equal(t, "1.0 s", c.Slowest)
	require.Equal(t, 2, strings.Count(c.P50, "M"), "a gap where nothing started")
	require.Equal(t, "12:00", c.Begin)
	require.Equal(t, "12:03 UTC", c.End)
	empty := chartOf(&ops.Activity{Span: ops.LastTwoDays, Intervals: []ops.ActivityInterval{{At: at}}})
	require.Empty(t, empty.P50)
	require.Empty(t, empty.Columns[0].Parts)
	require.Len(t, spark(&ops.ActivityType{Ends: []int64{0, 4, 2}, Failed: []int64{0, 0, 1}}), 3)
}

// TestBatch shows a batch, with what can be asked of it.
func TestBatch(t *testing.T) {
	r := newRig(t)
	id, err := r.store.CreateBatch(t.Context(), store.BatchRequest{Name: "November <b>", Open: true},
		func(yield func(store.EnqueueRequest, error) bool) {
			for range 3 {
				if !yield(store.EnqueueRequest{Type: "x"}, nil) {
					return
				}
			}
		}, nil)
	require.NoError(t, err)
	path := fmt.Sprintf("/batches/%d", id)
	r.get(200, path, "November &lt;b&gt;", "0%</b> of 3 tasks", "Cancel 3 tasks", "Seal", "no: tasks may be added")
	require.Equal(t, path+"?said=sealed", r.send("POST", path+"/seal", "x=1").Header().Get("Location"))
	require.Equal(t, 303, r.send("POST", path+"/cancel", "x=1").Code)
	r.get(200, path, "yes")
	r.get(404, "/batches/99", "no such batch")
	require.Equal(t, 404, r.send("POST", "/batches/99/cancel", "x=1").Code)
	require.Equal(t, 400, r.send("POST", path+"/eat", "x=1").Code)
}

// TestLargeDocument shows the beginning of it.
func TestLargeDocument(t *testing.T) {
	r := newRig(t)
	r.enqueue(store.EnqueueRequest{Type: "x", Payload: json.RawMessage(`{"text": "` + strings.Repeat("é", mostShown) + `"}`)})
	page := r.get(200, "/tasks/1", "bytes more: `leasehold task show` has all of it")
	require.Less(t, len(page), 2*mostShown)
}

// TestRollbackIsBarred: what no configuration declares a rollback for has no button for one, but the reason.
func TestRollbackIsBarred(t *testing.T) {
	r := newRig(t)
	policy := task.Policy{Timeout: time.Minute, Stop: time.Second}
	both := policy
	both.Rollback = &task.RollbackPolicy{Timeout: time.Minute, Stop: time.Second}
	_, err := r.store.Join(t.Context(), store.Agent{Name: "a", Presence: time.Minute, Workers: 1, Types: []string{"one_way", "both"},
		Policies: map[task.PolicyHash]store.NamedPolicy{
			policy.Hash("one_way"): {Type: "one_way", Policy: policy}, both.Hash("both"): {Type: "both", Policy: both},
		}})
	require.NoError(t, err)
	for typ, can := range map[string]bool{"one_way": false, "both": true} {
		id := r.enqueue(store.EnqueueRequest{Type: typ})
		batch, err := r.store.CreateBatch(t.Context(), store.BatchRequest{}, func(yield func(store.EnqueueRequest, error) bool) {
			yield(store.EnqueueRequest{Type: typ}, nil)
		}, nil)
		require.NoError(t, err)
		for path, c := range map[string]struct{ action, barred, reason string }{
			fmt.Sprintf("/tasks/%d", id):      {fmt.Sprintf(`action="/tasks/%d/rollback"`, id), "Roll back", "its type declares no rollback"},
			fmt.Sprintf("/batches/%d", batch): {fmt.Sprintf(`action="/batches/%d/rollback"`, batch), "Roll back 1 task", "the types of its tasks declare no rollback"},
			"/tasks?type=" + typ:              {"verb=rollback", "Roll back all…", "the type declares no rollback"},
		} {
			page := r.get(200, path)
			require.Equal(t, can, strings.Contains(page, c.action), path)
			barred := `<button type="button" disabled>` + c.barred + `</button> <span class="muted">` + c.reason
			require.Equal(t, !can, strings.Contains(page, barred), "%s: %s", path, page)
		}
	}
}
