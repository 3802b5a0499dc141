package v1

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// events opens the stream of the lists and returns what reads the next line that has this text.
func (s *served) events(token string) (until func(text string) error) {
	return s.follow("/events", token)
}

// follow opens a stream and returns what reads the next line that has this text.
func (s *served) follow(path, token string) (until func(text string) error) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.addr+Prefix+path, http.NoBody)
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{}
	resp, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = resp.Body.Close(); transport.CloseIdleConnections() })
	require.Equal(s.t, 200, resp.StatusCode)
	require.Equal(s.t, "text/event-stream", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	return func(text string) error {
		for lines.Scan() {
			if text != "" && strings.Contains(lines.Text(), text) {
				return nil
			}
		}
		return fmt.Errorf("the stream has ended: %w", lines.Err())
	}
}

// TestEvents follows what changes, to the end of the stream.
func TestEvents(t *testing.T) {
	s := serve(t, "geheim", true)
	until := s.events("geheim")
	require.NoError(t, until("event: counts"))
	require.NoError(t, until(`data: {"rows":{},"batch_tasks":{},"agents_present":0}`))
	s.enqueue(store.EnqueueRequest{Type: "x"})
	require.NoError(t, until(`data: {"rows":{"pending":1},"batch_tasks":{},"agents_present":0}`))
	require.NoError(t, until("event: changed"))
	require.NoError(t, until(`data: {"types":["x"]}`))
	s.contract.validate(t, "#/components/schemas/TypesChanged", []byte(`{"types":["x"]}`), "changed")
	s.contract.validate(t, "#/components/schemas/Counts", []byte(`{"rows":{"pending":1},"batch_tasks":{},"agents_present":0}`), "counts")

	s.server.Admit(api.Access{Token: "geheim", Advertise: "http://agent.example"})
	s.enqueue(store.EnqueueRequest{Type: "x"})
	require.NoError(t, until(`{"pending":2}`), "the token is the same")
	began := time.Now()
	s.server.Admit(api.Access{Token: "anders"})
	require.Error(t, until(""), "who reads has to show that they may")
	require.Less(t, time.Since(began), 5*time.Second)

	until = s.events("anders")
	require.NoError(t, until("event: counts"))
	began = time.Now()
	require.NoError(t, s.done())
	require.Error(t, until(""))
	require.Less(t, time.Since(began), 5*time.Second)
}

// TestStreamsAreBounded opens more than there may be.
func TestStreamsAreBounded(t *testing.T) {
	s := serve(t, "", false)
	for range mostStreams {
		require.NoError(t, s.events("")("event: counts"))
	}
	resp, body := s.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Contains(t, body, "busy")
	require.Equal(t, 503, resp.StatusCode)
	require.Equal(t, "1", resp.Header.Get("Retry-After"))
	s.is(200, "GET", "/tasks", "")
	head, _ := s.send("HEAD /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Equal(t, 200, head.StatusCode)
	s.server.Admit(api.Access{Token: "another"})
	require.Eventually(t, func() bool {
		resp, _ := s.send("HEAD /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
		return resp.StatusCode == http.StatusOK
	}, 20*time.Second, 10*time.Millisecond)
}

// claim claims the one task of a type.
func (r *rig) claim(session task.Session, typ string) task.Task {
	r.t.Helper()
	got, err := r.store.Claim(r.t.Context(), store.Claim{
		Session: session, Number: time.Now().UnixNano(), Pass: &store.Pass{Most: 100},
		Wants: []store.Want{{Type: typ, Phase: task.Run, N: 1, Window: time.Minute, Policy: 1}},
	})
	require.NoError(r.t, err)
	require.Len(r.t, got, 1)
	return got[0]
}

// TestTaskEvents follows a task to its end and beyond.
func TestTaskEvents(t *testing.T) {
	s := serve(t, "", false)
	s.is(404, "GET", "/tasks/99/events", "", "task 99: no such task")
	s.is(400, "GET", "/tasks/x/events", "")
	a := store.Agent{
		Name: "a", Version: "test", Workers: 1, Types: []string{"x"}, Presence: time.Minute, Redact: map[string][]string{"x": {"card"}},
		Policies: map[task.PolicyHash]store.NamedPolicy{1: {Type: "x", Policy: policy}},
	}
	session, err := s.store.Join(t.Context(), a)
	require.NoError(t, err)
	id := s.enqueue(store.EnqueueRequest{Type: "x"})
	other := s.enqueue(store.EnqueueRequest{Type: "y"})
	path := fmt.Sprintf("/tasks/%d/events", id)
	until := s.follow(path, "")
	require.NoError(t, until("event: task"))
	require.NoError(t, until(`"state":"pending","attempt":0`))
	row := s.claim(session, "x")
	require.NoError(t, until(`"state":"running"`))
	data := `"progress":{"done":1,"card":"(redacted)"},"message":"half"`
	_, err = s.store.Renew(t.Context(), session, []store.Renewal{{ID: id, Fence: row.Fence, Window: 2 * time.Minute, Report: store.Report{
		Progress: json.RawMessage(`{"done":1,"card":"4111"}`), Message: "half",
	}}})
	require.NoError(t, err)
	require.NoError(t, until(data))
	_, err = s.store.Renew(t.Context(), session, []store.Renewal{{ID: id, Fence: row.Fence, Window: 20 * time.Minute}})
	require.NoError(t, err)
	require.NoError(t, until(data), "the lease has moved")
	_, err = s.store.Cancel(t.Context(), other, "") // of another task there is no event
	require.NoError(t, err)
	_, err = s.store.Settle(t.Context(), session, []store.Settlement{{
		ID: id, Fence: row.Fence, RanFence: row.Fence, Phase: task.Run, Attempt: 1,
		Next:    task.Transition{State: task.StateFailed, Attempt: 1, EverStarted: true, Reason: "boom"},
		Outcome: task.Outcome{Verdict: task.Failed, Error: "boom"}, CancelKnown: true,
	}})
	require.NoError(t, err)
	require.NoError(t, until(`"finished_at"`))
	_, err = s.store.Retry(t.Context(), id, "")
	require.NoError(t, err)
	require.NoError(t, until(`"state":"pending"`))
	seen, err := s.api.glance(t.Context(), []task.ID{id})
	require.NoError(t, err)
	s.contract.validate(t, "#/components/schemas/Glance", seen.tasks[id], "glance")

	db := openFile(t, s.file)
	_, err = db.ExecContext(t.Context(), "DELETE FROM task WHERE id = ?", int64(id))
	require.NoError(t, err)
	require.NoError(t, until("event: gone"))
	require.Error(t, until(""), "the stream has ended")

	until = s.follow(fmt.Sprintf("/tasks/%d/events", other), "")
	require.NoError(t, until(`"state":"cancelled"`))
	began := time.Now()
	require.NoError(t, s.done())
	require.Error(t, until(""))
	require.Less(t, time.Since(began), 5*time.Second)
}

// counting is a store that counts what streams ask it for.
type counting struct {
	Store

	glances, counts, newest atomic.Int64
}

func (c *counting) Glance(ctx context.Context, ids []task.ID) ([]store.Glance, error) {
	c.glances.Add(1)
	return c.Store.Glance(ctx, ids)
}

func (c *counting) Counts(ctx context.Context) (store.Stats, error) {
	c.counts.Add(1)
	return c.Store.Counts(ctx)
}

func (c *counting) Newest(ctx context.Context, n int) ([]store.Mark, error) {
	c.newest.Add(1)
	return c.Store.Newest(ctx, n)
}

// TestManyStreamsCostWhatOneCosts opens a hundred, half of one task each, and has all of them see what changes.
func TestManyStreamsCostWhatOneCosts(t *testing.T) {
	s := serve(t, "", false)
	asked := &counting{Store: s.store}
	s.api.Store = asked
	const tasks, lists = 50, 50
	began := time.Now()
	var streams []func(string) error
	var ids []task.ID
	for range tasks {
		ids = append(ids, s.enqueue(store.EnqueueRequest{Type: "x"}))
		streams = append(streams, s.follow(fmt.Sprintf("/tasks/%d/events", ids[len(ids)-1]), ""))
	}
	for range lists {
		streams = append(streams, s.events(""))
	}
	s.is(200, "GET", "/tasks", "") // they keep no requests out
	for _, until := range streams[tasks:] {
		require.NoError(t, until(`"pending":50`))
	}
	for _, id := range ids {
		_, err := s.store.Cancel(t.Context(), id, "")
		require.NoError(t, err)
	}
	for n, until := range streams {
		text := `"state":"cancelled"`
		if n >= tasks {
			text = `data: {"types":["x"]}`
		}
		require.NoError(t, until(text))
	}
	looks := int64(time.Since(began)/(glanceEvery*9/10)) + 1
	require.LessOrEqual(t, asked.glances.Load(), tasks+looks, "one for each that begins, and one a second")
	require.LessOrEqual(t, asked.counts.Load(), looks)
	require.LessOrEqual(t, asked.newest.Load(), looks)
	require.Positive(t, asked.newest.Load())

	s.server.Admit(api.Access{Token: "another"}) // all end
	for _, until := range streams {
		require.Error(t, until(""))
	}
	require.Eventually(t, func() bool {
		free := s.api.bounds.streams.TryAcquire(mostStreams)
		if free {
			s.api.bounds.streams.Release(mostStreams)
		}
		return free
	}, 10*time.Second, 10*time.Millisecond)
	require.Empty(t, s.api.watched.ids(), "nobody looks: only streams do")
}

// slow is a client that reads the first event and no other: net/http fails a write at its deadline.
type slow struct {
	deadlines

	writes int
}

func (s *slow) Flush() {}

func (s *slow) WriteString(text string) (int, error) { return s.Write([]byte(text)) }

func (s *slow) Write(p []byte) (int, error) {
	if s.writes++; s.writes > 2 {
		return 0, errors.New("i/o timeout")
	}
	return s.deadlines.Write(p)
}

// TestSlowReadersAreDropped has a client read too slowly.
func TestSlowReadersAreDropped(t *testing.T) {
	r := onSQLite(t)
	id := r.enqueue(store.EnqueueRequest{Type: "x"})
	w := &slow{deadlines: deadlines{ResponseRecorder: httptest.NewRecorder()}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("%s/tasks/%d/events", Prefix, id), http.NoBody))
	}()
	require.Eventually(t, func() bool { return len(r.api.watched.ids()) == 1 }, 10*time.Second, time.Millisecond)
	for { // until it is told of a change
		select {
		case <-ended:
			require.Equal(t, 3, w.writes)
			require.InDelta(t, eventWithin, time.Until(w.write), float64(eventWithin), "each write has a time of its own")
			require.Empty(t, r.api.watched.ids())
			return
		case <-time.After(20 * time.Millisecond):
			_, err := r.store.Cancel(t.Context(), id, "")
			require.NoError(t, err)
		}
	}
}

// TestWhatIsNewsOfTypes compares looks.
func TestWhatIsNewsOfTypes(t *testing.T) {
	counted := func(n int64, state task.State) *store.Stats {
		s := store.NewStats()
		s.Waiting = []store.TypeCount{{Type: "a", State: state, N: n}}
		return &s
	}
	types := func(n *news, look int64) []string {
		c, _ := n.since(look)
		return c.Types
	}
	n := (*news)(nil).next(nil, counted(1, task.StatePending), nil)
	require.Equal(t, []string{"a"}, types(n, 0))
	n = n.next(nil, counted(1, task.StatePending), nil)
	require.Empty(t, types(n, 1))
	n = n.next(nil, counted(2, task.StatePending), []store.Mark{{ID: 1, Type: "b", State: task.StateSucceeded}})
	require.Equal(t, []string{"a", "b"}, types(n, 2))
	n = n.next(nil, counted(0, task.StatePending), []store.Mark{{ID: 1, Type: "b", State: task.StateFailed}})
	require.Equal(t, []string{"a", "b"}, types(n, 3), "all of a have gone, b has one in another state")
	n = n.next(nil, counted(0, task.StatePending), nil)
	require.Equal(t, []string{"b"}, types(n, 4))
	require.Equal(t, []string{"a", "b"}, types(n, 3), "who has missed a look")
	for range keptLooks {
		n = n.next(nil, counted(0, task.StatePending), nil)
	}
	require.Empty(t, n.types)
	n = n.next(nil, counted(1, task.StateRunning), nil)
	began := n.look
	for n.look < began+staleAfter {
		require.Equal(t, n.look == began, len(types(n, n.look-1)) > 0)
		n = n.next(nil, counted(1, task.StateRunning), nil)
	}
	require.Equal(t, []string{"a"}, types(n, n.look-1), "what runs may have changed without another number")
	var many []store.Mark
	for i := range 2 * mostTypes {
		many = append(many, store.Mark{ID: task.ID(i + 1), Type: fmt.Sprintf("t%03d", i), State: task.StateFailed})
	}
	c, _ := n.next(nil, counted(1, task.StateRunning), many).since(n.look)
	require.Len(t, c.Types, mostTypes)
	require.True(t, c.More)
}
