package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// manyTarget is an endpoint for requests with several tasks. What it does stands in their payloads.
type manyTarget struct {
	*fakeTarget
	url     string
	release chan struct{} // closed: those that hold are done
	made    bool          // the store was

	mu   sync.Mutex
	came []manyRequest
}

// manyRequest is one request as it came.
type manyRequest struct {
	header http.Header
	Type   string
	Data   struct{ Tasks []oneOfMany }
}

// oneOfMany is one of its tasks.
type oneOfMany struct {
	Data struct{ Do string }
	Task struct {
		ID, Fence   int64
		Attempt     int
		WebhookID   string `json:"webhook_id"`
		Traceparent string
		PingURL     string `json:"ping_url"`
	}
}

func newManyTarget(t *testing.T, d *fakeTarget) *manyTarget {
	t.Helper()
	m := &manyTarget{fakeTarget: d, release: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(m.serve))
	m.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return m
}

// start starts an agent whose requests have up to so many tasks, and more in the task block.
func (m *manyTarget) start(most int, work string) *harness.Agent {
	m.t.Helper()
	return m.declare("agent", fmt.Sprintf("%s\n  webhook {\n    url = %q\n    cancel_grace = \"0s\"\n    batch {\n      max = %d\n    }\n  }",
		work, m.url, most))
}

// add makes n tasks that do that, before an agent is there.
func (m *manyTarget) add(n int, do string) {
	m.t.Helper()
	if m.onSQLite() && !m.made {
		m.start(1, "").Drain(m.t) // which makes the file
		m.made = true
	}
	values := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`('work', '{"do": %q}'),`, do), n), ",")
	m.exec("INSERT INTO " + m.schema() + "task (type, payload) VALUES " + values)
}

func (m *manyTarget) requests() []manyRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.came)
}

// awaitRequest waits until a task has come, and returns the first request that it was in.
func (m *manyTarget) awaitRequest(id int64) (r manyRequest) {
	m.t.Helper()
	harness.Until(m.t, workWithin, fmt.Sprintf("task %d has come", id), func() bool {
		all := m.requests()
		i := slices.IndexFunc(all, func(r manyRequest) bool {
			return slices.ContainsFunc(r.Data.Tasks, func(o oneOfMany) bool { return o.Task.ID == id })
		})
		if i >= 0 {
			r = all[i]
		}
		return i >= 0
	})
	return r
}

func (m *manyTarget) serve(w http.ResponseWriter, r *http.Request) {
	q := manyRequest{header: r.Header}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil || len(q.Data.Tasks) == 0 {
		panic(fmt.Sprintf("%s: %v", body, err)) // the connection is cut
	}
	m.mu.Lock()
	m.came = append(m.came, q)
	m.mu.Unlock()
	has := func(do string) bool {
		return slices.ContainsFunc(q.Data.Tasks, func(o oneOfMany) bool { return o.Data.Do == do })
	}
	switch {
	case has("500"):
		w.WriteHeader(http.StatusInternalServerError)
		return
	case has("429") && q.Data.Tasks[0].Task.Fence == 1:
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case has("204"):
		w.WriteHeader(http.StatusNoContent)
		return
	case has("text"):
		_, _ = io.WriteString(w, "all done")
		return
	case has("array"):
		m.array(w, &q)
		return
	}
	m.lines(w, r, &q)
}

// array answers with a JSON array.
func (m *manyTarget) array(w http.ResponseWriter, q *manyRequest) {
	var lines []string
	for _, o := range q.Data.Tasks {
		lines = append(lines, fmt.Sprintf(`{"id": %d, "result": [%d]}`, o.Task.ID, o.Task.ID))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, "[%s]", strings.Join(lines, ", "))
}

// lines answers with a line for each task, as it ends.
func (m *manyTarget) lines(w http.ResponseWriter, r *http.Request, q *manyRequest) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(w, format+"\n", args...) // it may be gone
		_ = http.NewResponseController(w).Flush()
	}
	var all sync.WaitGroup
	for _, o := range q.Data.Tasks {
		all.Go(func() { m.one(r, o, say) })
	}
	all.Wait()
}

// one does what one task says.
func (m *manyTarget) one(r *http.Request, o oneOfMany, say func(string, ...any)) {
	id := o.Task.ID
	switch do := o.Data.Do; do {
	case "fail":
		say(`{"id": %d, "error": "no"}`, id)
	case "reject":
		say(`{"id": %d, "error": "never", "retryable": false}`, id)
	case "mute":
	case "twice":
		say(`{"id": %d, "result": [%d]}`, id, id)
		say(`{"id": %d, "error": "the second"}`, id)
	case "foreign":
		say(`{"id": 9007199254740993, "result": 1}`)
		say(`{"id": %d, "result": [%d]}`, id, id)
	case "hold":
		select {
		case <-m.release:
			say(`{"id": %d, "result": [%d]}`, id, id)
		case <-r.Context().Done():
		}
	case "ping":
		for i := range 12 {
			say(`{"id": %d, "progress": {"done": %d, "total": 12}}`, id, i+1)
			timer := time.NewTimer(500 * time.Millisecond)
			<-timer.C
		}
		say(`{"id": %d, "result": [%d]}`, id, id)
	case "hang":
		if o.Task.Attempt == 1 {
			<-r.Context().Done()
			return
		}
		say(`{"id": %d, "result": [%d]}`, id, id)
	default:
		say(`{"id": %d, "result": [%d]}`, id, id)
	}
}

// succeeded checks that a task has, at its first attempt, and with a result that is its own.
func (m *manyTarget) succeeded(id int64) {
	m.t.Helper()
	s := m.becomes(id, "succeeded")
	require.JSONEq(m.t, fmt.Sprintf("[%d]", id), string(s.Result))
	for _, a := range s.History {
		require.Equal(m.t, 1, a.Attempt, "no attempt was charged: %v", s.History)
	}
}

// TestManyInOneRequest: tasks share requests, in the form that the protocol says, and each line settles its own row.
func TestManyInOneRequest(t *testing.T) {
	const tasks, most = 120, 50
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		m := newManyTarget(t, d)
		m.add(tasks, "")
		a := m.start(most, "")
		m.awaitMany(tasks, "succeeded")
		seen, largest := map[int64]bool{}, 0
		for _, r := range m.requests() {
			require.Equal(t, "work", r.Type)
			require.Regexp(t, `^batch_[0-9A-Za-z_-]{16,}$`, r.header.Get("Webhook-Id"))
			for name := range r.header {
				require.False(t, strings.HasPrefix(name, "Leasehold-Task") || strings.HasPrefix(name, "Leasehold-Fence"), name)
			}
			require.LessOrEqual(t, len(r.Data.Tasks), most)
			largest = max(largest, len(r.Data.Tasks))
			for _, o := range r.Data.Tasks {
				require.False(t, seen[o.Task.ID], "task %d came twice", o.Task.ID)
				seen[o.Task.ID] = true
				require.Equal(t, fmt.Sprintf("task_%d", o.Task.ID), o.Task.WebhookID)
				require.NotEmpty(t, o.Task.Traceparent)
				require.NotEmpty(t, o.Task.PingURL)
			}
		}
		require.Len(t, seen, tasks)
		require.Greater(t, largest, 1)
		m.succeeded(tasks)
		a.Drain(t)
	})
}

// TestLinesSettleAtOnce: a row has succeeded as soon as its line has come, whatever the others of its request do; a row that is
// cancelled meanwhile, or stalls, takes nothing of the others.
func TestLinesSettleAtOnce(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		m := newManyTarget(t, d)
		m.add(1, "")      // 1
		m.add(2, "hold")  // 2, 3
		m.add(1, "twice") // 4
		m.add(1, "foreign")
		m.add(1, "fail")   // 6
		m.add(1, "reject") // 7
		a := m.start(100, "timeout = \"1m\"")
		for _, id := range []int64{1, 4, 5} {
			m.succeeded(id)
		}
		require.Contains(t, m.becomes(7, "failed").Error, "never", "at its first attempt")
		require.Contains(t, m.becomes(6, "failed").Error, "no", "at its second attempt, which came while the first request was open")
		require.Len(t, m.awaitRequest(2).Data.Tasks, 7)
		m.request("cancel", 2)
		m.becomes(2, "cancelled")
		require.Equal(t, "running", m.show(3).State)
		close(m.release)
		m.succeeded(3)
		require.Equal(t, "cancelled", m.show(2).State)
		a.Drain(t)
	})
}

// TestOneOfManyStalls: a row that reports nothing stalls and is tried again, while others of its request go on by their lines.
func TestOneOfManyStalls(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		m := newManyTarget(t, d)
		m.add(1, "ping")
		m.add(1, "hang")
		a := m.start(100, "heartbeat = \"2s\"")
		require.Len(t, m.awaitRequest(1).Data.Tasks, 2)
		m.succeeded(1)
		s := m.becomes(2, "succeeded")
		require.Equal(t, "stalled", s.History[0].Outcome)
		a.Drain(t)
	})
}

// TestPoisonAmongAHundred: a row that fails every request it is in costs the others no attempt, and few requests.
func TestPoisonAmongAHundred(t *testing.T) {
	const tasks, poison = 100, 37
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		m := newManyTarget(t, d)
		m.add(poison-1, "")
		m.add(1, "500")
		m.add(tasks-poison, "")
		a := m.start(tasks, "")
		m.awaitMany(tasks-1, "succeeded")
		s := m.becomes(poison, "failed")
		charged := 0
		for _, h := range s.History {
			if h.Outcome == "failed" {
				charged++
			}
		}
		require.Equal(t, 2, charged, "its two attempts, alone: %v", s.History)
		for id := int64(1); id <= tasks; id += 10 {
			m.succeeded(id)
		}
		for _, r := range m.requests() {
			for _, o := range r.Data.Tasks {
				require.True(t, o.Task.ID == poison || o.Task.Attempt == 1, "task %d is at attempt %d", o.Task.ID, o.Task.Attempt)
			}
		}
		t.Logf("%d requests", len(m.requests()))
		require.Less(t, len(m.requests()), tasks/2)
		a.Drain(t)
	})
}

// TestAnswersToMany: what responses without lines mean.
func TestAnswersToMany(t *testing.T) {
	for do, check := range map[string]func(t *testing.T, m *manyTarget){
		"204": func(t *testing.T, m *manyTarget) {
			t.Helper()
			m.awaitMany(5, "succeeded")
			require.Len(t, m.requests(), 1)
		},
		"array": func(t *testing.T, m *manyTarget) {
			t.Helper()
			m.awaitMany(5, "succeeded")
			for id := range int64(5) {
				m.succeeded(id + 1)
			}
		},
		"text": func(t *testing.T, m *manyTarget) {
			t.Helper()
			m.awaitMany(5, "failed") // an endpoint that knows nothing of several tasks must not pass for one that has done them
		},
		"mute": func(t *testing.T, m *manyTarget) {
			t.Helper()
			m.awaitMany(5, "failed")
		},
		"429": func(t *testing.T, m *manyTarget) {
			t.Helper()
			m.awaitMany(5, "succeeded")
			s := m.show(1)
			require.Equal(t, "deferred", s.History[0].Outcome)
			require.Equal(t, 1, s.History[len(s.History)-1].Attempt)
		},
	} {
		t.Run(do, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, d *fakeTarget) {
				m := newManyTarget(t, d)
				m.add(5, do)
				a := m.start(100, "timeout = \"1s\"")
				check(t, m)
				a.Drain(t)
			})
		})
	}
}
