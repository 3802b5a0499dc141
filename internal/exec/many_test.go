package exec

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// serveMany is a server of batches that answers with that status, and counts what came.
type serveMany struct {
	url    string
	status int

	mu       sync.Mutex
	requests []int // how many tasks they had
	checks   int
}

func newServeMany(t *testing.T, check func(id int64) string) *serveMany {
	t.Helper()
	m := &serveMany{status: http.StatusNoContent}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var doc struct {
			Data struct{ Tasks []json.RawMessage }
			Task struct{ ID int64 }
		}
		if err := json.NewDecoder(r.Body).Decode(&doc); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		m.mu.Lock()
		defer m.mu.Unlock()
		if r.URL.Path == "/check" {
			m.checks++
			_, _ = io.WriteString(w, check(doc.Task.ID))
			return
		}
		m.requests = append(m.requests, len(doc.Data.Tasks))
		w.WriteHeader(m.status)
	}))
	t.Cleanup(s.Close)
	m.url = s.URL
	return m
}

func (m *serveMany) declared() *task.Type {
	return &task.Type{
		Name: "invoice.send", Source: "tasks.hcl:3",
		Target: &task.Webhook{URL: exectest.Text(m.url), Method: http.MethodPost, Batch: &task.Batch{Max: 100}},
	}
}

// runMany runs attempts in one request and returns how each has ended.
func runMany(t *testing.T, r *Runner, typ *task.Type, n int, p task.Policy) []task.Outcome {
	t.Helper()
	ls := make([]*lease.Lease, n)
	for i := range ls {
		ls[i] = exectest.Attempt{Task: task.Task{ID: task.ID(i + 1)}, Policy: p}.Lease()
		defer ls[i].Close()
	}
	var mu sync.Mutex
	got, times := make([]task.Outcome, n), make([]int, n)
	r.RunMany(ls, typ, func(i int, o task.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		got[i] = o
		times[i]++
		r.Breakers().Done(typ.Name, task.Run, ls[i].Task().ID, o)
	})
	for i, n := range times {
		require.Equal(t, 1, n, "ends of task %d", i+1)
	}
	return got
}

// The checks of a request's tasks are asked first. Those that are done, or whose checks fail, are not in it.
func TestManyAreCheckedFirst(t *testing.T) {
	m := newServeMany(t, func(id int64) string {
		switch id % 3 {
		case 0:
			return `{"done": true, "result": "already"}`
		case 1:
			return `{"done": false}`
		}
		return `nonsense`
	})
	typ := m.declared()
	typ.Check = &task.Webhook{URL: exectest.Text(m.url + "/check"), Method: http.MethodPost}
	r := New(Options{Workers: 4})
	defer r.Close()
	const n = 60
	for i, o := range runMany(t, r, typ, n, task.Policy{Check: 5 * time.Second}) {
		switch (i + 1) % 3 {
		case 0:
			require.Equal(t, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`"already"`), NeverStarted: true, InCheck: true}, o)
		case 1:
			require.Equal(t, task.Outcome{Verdict: task.Succeeded}, o)
		default:
			require.Equal(t, task.Failed, o.Verdict)
			require.True(t, o.InCheck)
		}
	}
	require.Equal(t, n, m.checks)
	require.Equal(t, []int{n / 3}, m.requests)
}

// Checks that are slow keep none of the tasks beyond its time: those whose checks cannot begin in time are released.
func TestManyWithSlowChecks(t *testing.T) {
	stop := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path != "/check" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		slow := time.NewTimer(700 * time.Millisecond)
		defer slow.Stop()
		select {
		case <-slow.C:
		case <-stop:
		}
	}))
	defer s.Close()
	defer close(stop)
	m := &serveMany{url: s.URL}
	typ := m.declared()
	typ.Check = &task.Webhook{URL: exectest.Text(m.url + "/check"), Method: http.MethodPost}
	r := New(Options{Workers: 100})
	defer r.Close()
	ran, released := 0, 0
	for _, o := range runMany(t, r, typ, checksAtOnce+5, task.Policy{Check: 5 * time.Second}) {
		switch {
		case o.Verdict == task.Succeeded:
			ran++
		case o.Verdict == task.Drained && o.NeverStarted:
			released++
		default:
			require.Fail(t, fmt.Sprintf("%+v", o))
		}
	}
	require.Equal(t, checksAtOnce, ran)
	require.Equal(t, 5, released)
}

// Five requests that are answered with 503 open the breaker, not five tasks. While it is open, one task is tried.
func TestManyAndTheBreaker(t *testing.T) {
	m := newServeMany(t, nil)
	m.status = http.StatusServiceUnavailable
	typ := m.declared()
	r := New(Options{Workers: 4})
	defer r.Close()
	for range enoughRows {
		n, _ := r.Breakers().Room(typ.Name, task.Run)
		require.Equal(t, noBound, n)
		// Other tasks each time: it is rows that count, and one of each request does.
		ls := make([]*lease.Lease, 20)
		for i := range ls {
			ls[i] = exectest.Attempt{Task: task.Task{ID: task.ID(len(m.requests)*100 + i + 1)}}.Lease()
			defer ls[i].Close()
		}
		r.RunMany(ls, typ, func(i int, o task.Outcome) {
			require.Equal(t, task.Deferred, o.Verdict)
			r.Breakers().Done(typ.Name, task.Run, ls[i].Task().ID, o)
		})
	}
	n, _ := r.Breakers().Room(typ.Name, task.Run)
	require.Equal(t, closedForNow, n)
	for _, o := range runMany(t, r, typ, 3, task.Policy{}) {
		require.Equal(t, task.Drained, o.Verdict)
		require.True(t, o.NeverStarted)
	}
	require.Len(t, m.requests, enoughRows)
	for n, wait := r.Breakers().Room(typ.Name, task.Run); n != oneTrial; n, wait = r.Breakers().Room(typ.Name, task.Run) {
		pause := time.NewTimer(wait)
		<-pause.C
	}
	m.status = http.StatusNoContent
	trials := 0
	for _, o := range runMany(t, r, typ, 3, task.Policy{}) {
		if o.Verdict == task.Succeeded {
			trials++
		}
	}
	require.Equal(t, 1, trials)
	require.Equal(t, 1, m.requests[enoughRows])
	n, _ = r.Breakers().Room(typ.Name, task.Run)
	require.NotContains(t, []int{closedForNow, oneTrial}, n)
}

// An attempt that is alone goes to such a target in a request of one.
func TestOneOfMany(t *testing.T) {
	m := newServeMany(t, nil)
	r := New(Options{Workers: 4})
	defer r.Close()
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	require.Equal(t, task.Outcome{Verdict: task.Succeeded}, r.Run(l, m.declared()))
	require.Equal(t, []int{1}, m.requests)
}
