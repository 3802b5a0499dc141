package postgres_test

import (
	"bytes"
	"context"
	"log/slog"
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
)

// soon bounds every wait for something that must happen.
const soon = 20 * time.Second

// listening runs Listen until the test is over, and gives its wakes.
func listening(t *testing.T, s *postgres.Store) (wakes chan struct{}) {
	t.Helper()
	wakes = make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Listen(ctx, func(store.News) { wakes <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(soon):
			t.Error("Listen goes on after its context has ended")
		}
	})
	return wakes
}

func awaitWake(t *testing.T, wakes chan struct{}) {
	t.Helper()
	select {
	case <-wakes:
	case <-time.After(soon):
		t.Fatal("no agent was woken")
	}
}

// received returns the payloads that arrive on the schema's channel before a mark that it sends now.
func received(t *testing.T, conn *pgx.Conn, channel string) (payloads []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err := pgtest.Connect(t).Exec(ctx, `SELECT pg_notify($1, 'mark')`, channel)
	require.NoError(t, err)
	for {
		n, err := conn.WaitForNotification(ctx)
		require.NoError(t, err)
		if n.Payload == "mark" {
			return payloads
		}
		payloads = append(payloads, n.Payload)
	}
}

func TestInsertsNotifyOnlyWhileASessionIsIdle(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	session, err := h.Join(t.Context(), someAgent())
	require.NoError(t, err)
	channel := "leasehold:" + h.schema
	conn := pgtest.Connect(t)
	_, err = conn.Exec(t.Context(), `LISTEN "`+channel+`"`)
	require.NoError(t, err)
	insert := func() []string {
		h.Insert(t, store.EnqueueRequest{Type: "a"}, store.EnqueueRequest{Type: "a"})
		h.EnqueueSQL(t, store.EnqueueRequest{Type: "b", In: time.Hour})
		return received(t, conn, channel)
	}
	require.Empty(t, insert(), "no agent is idle")
	require.NoError(t, h.Idle(t.Context(), session, true))
	require.Equal(t, []string{"", ""}, insert(), "one for each transaction")
	require.NoError(t, h.Idle(t.Context(), session, false))
	require.Empty(t, insert())
	require.NoError(t, h.Idle(t.Context(), session, true))
	h.Advance(t, 2*week)
	require.Empty(t, insert(), "the idle session is not present")
	_, err = h.Join(t.Context(), someAgent())
	require.NoError(t, err)
	require.Empty(t, insert(), "the present session is not idle")
}

func TestListenWakes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	session, err := h.Join(t.Context(), someAgent())
	require.NoError(t, err)
	require.NoError(t, h.Idle(t.Context(), session, true))
	wakes := listening(t, h.Store)
	awaitWake(t, wakes) // it listens now
	h.Insert(t, store.EnqueueRequest{Type: "a"})
	awaitWake(t, wakes)
	// The connection is lost: whatever came meanwhile must be looked for.
	require.EqualValues(t, 1, h.number(t, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE query = 'LISTEN "leasehold:SCHEMA"'`))
	awaitWake(t, wakes)
	h.Insert(t, store.EnqueueRequest{Type: "a"})
	awaitWake(t, wakes)
}

// TestListenThroughAPooler has notifications lost on the way, as PgBouncer in transaction mode loses them.
func TestListenThroughAPooler(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var dropped sync.Once
	gone := make(chan struct{})
	p := (&proxy{message: func(kind byte, _ []byte) (bool, error) {
		if kind == 'A' { // NotificationResponse
			dropped.Do(func() { close(gone) })
			return false, nil
		}
		return true, nil
	}}).start(t)
	var log lines
	s := openStore(t, postgres.Options{
		URL: p.URL, Schema: h.schema, Notify: true, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	wakes := listening(t, s)
	select {
	case <-gone:
	case <-time.After(soon):
		t.Fatal("the agent does not notify itself")
	}
	log.await(t, "notifications do not arrive")
	require.Empty(t, wakes, "nothing woke it")
}

func TestListenWithoutNotify(t *testing.T) {
	t.Parallel()
	s := openStore(t, postgres.Options{URL: "postgres://postgres@127.0.0.1:1/none?sslmode=disable"})
	require.Empty(t, listening(t, s))
}

// lines is a log that can be waited on.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
	return len(b), nil
}

func (l *lines) await(t *testing.T, text string) {
	t.Helper()
	end := time.After(soon)
	for {
		l.mu.Lock()
		has := bytes.Contains(l.text.Bytes(), []byte(text))
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		if has {
			return
		}
		select {
		case <-more:
		case <-end:
			t.Fatalf("the log never says %q", text)
		}
	}
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes(), []byte(text))
}

// TestForgedNotifications has a role without any rights send what it likes: agents look for themselves, and nothing else comes of it.
func TestForgedNotifications(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	session, err := h.Join(t.Context(), someAgent())
	require.NoError(t, err)
	require.NoError(t, h.Idle(t.Context(), session, true))
	wakes := listening(t, h.Store)
	awaitWake(t, wakes)
	stranger := pgtest.ConnectTo(t, pgtest.Role(t, func(string) string { return "" }))
	for _, payload := range []string{"", "asked", "pause", "after", "place 1", "place", "echo ", "mark", strings.Repeat("x", 7999), "\x01; DROP TABLE task"} {
		_, err := stranger.Exec(t.Context(), `SELECT pg_notify($1, $2)`, "leasehold:"+h.schema, payload)
		require.NoError(t, err)
	}
	_, err = stranger.Exec(t.Context(), h.q(`SELECT count(*) FROM SCHEMA.tasks`))
	require.ErrorContains(t, err, "42501", "that is all that it may do")
	awaitWake(t, wakes)
	ids := h.Insert(t, store.EnqueueRequest{Type: "a"})
	awaitWake(t, wakes)
	info, err := h.Get(t.Context(), ids[0])
	require.NoError(t, err)
	require.Equal(t, task.StatePending, info.State)
	require.Empty(t, h.Audit(t))
}
