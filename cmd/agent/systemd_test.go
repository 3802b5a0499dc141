package main

import (
	"context"
	"database/sql"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// serviceManager receives the messages that an agent of this process sends to systemd.
type serviceManager struct {
	t *testing.T
	l *net.UnixConn
}

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	t.Setenv("NOTIFY_SOCKET", socket)
	return &serviceManager{t, l}
}

// receive returns the lines of the next message.
func (s *serviceManager) receive() []string {
	s.t.Helper()
	require.NoError(s.t, s.l.SetReadDeadline(time.Now().Add(20*time.Second)))
	b := make([]byte, 4096)
	n, err := s.l.Read(b)
	require.NoError(s.t, err)
	return strings.Split(strings.TrimSuffix(string(b[:n]), "\n"), "\n")
}

// until receives messages until one has that line, and requires that none before it has one of the others. It returns that
// message.
func (s *serviceManager) until(line string, not ...string) []string {
	s.t.Helper()
	for {
		m := s.receive()
		for _, n := range not {
			require.NotContains(s.t, m, n, "before %s", line)
		}
		for _, l := range m {
			if strings.HasPrefix(l, line) {
				return m
			}
		}
	}
}

// keepStore keeps every other writer from the SQLite store at dir until release.
func keepStore(t *testing.T, r *rig) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite", r.file)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), "PRAGMA busy_timeout = 20000") // the agent may write just now
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	return func() {
		_, err := conn.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
}

// Type=notify units that come after the agent's are to find it there: it is ready once its session is.
func TestReadyIsSaidOnceTheSessionIsOpen(t *testing.T) {
	m := newServiceManager(t)
	var release func()
	r := startWith(t, "", quiet(), func(r *rig) { release = keepStore(t, r) })
	first := m.until("STATUS=", "READY=1")
	require.Contains(t, first, "STATUS=waiting for the store")
	require.Contains(t, first, "EXTEND_TIMEOUT_USEC=30000000", "it waits longer than units allow")
	release()
	ready := m.until("READY=1")
	require.Contains(t, ready, "STATUS=running, 0 tasks in hand")
	stats, err := r.agent.store.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, stats.AgentsPresent)
	r.stop(t)
	m.until("STOPPING=1", "READY=1")
}

func TestWatchdogIsServed(t *testing.T) {
	m := newServiceManager(t)
	t.Setenv("WATCHDOG_USEC", "400000")
	r := startAgent(t, "")
	m.until("READY=1")
	for range 10 {
		m.until("WATCHDOG=1", "STOPPING=1")
	}
	release := keepStore(t, r) // the loop waits for the store, which is no reason to kill it
	for range 10 {
		m.until("WATCHDOG=1", "STOPPING=1")
	}
	release()
	m.until("WATCHDOG=1")
	r.stop(t)
	m.until("STOPPING=1")
}

// stuck is an agent whose loop stands still while still is set.
type stuck struct{ still bool }

func (s *stuck) Joined() bool   { return true }
func (s *stuck) Draining() bool { return false }
func (s *stuck) Fit() bool      { return true }
func (s *stuck) Held() int      { return 3 }
func (s *stuck) Pulse() bool    { return !s.still }

func TestWatchdogIsNotServedForALoopThatStandsStill(t *testing.T) {
	var said []string
	of := &stuck{}
	m := &manager{of: of, log: quiet(), watch: true, send: func(state string) error {
		said = append(said, state)
		return nil
	}}
	m.sendState()
	m.sendState()
	of.still = true
	m.sendState()
	m.sendState()
	require.Equal(t, []string{"READY=1\nWATCHDOG=1\nSTATUS=running, 3 tasks in hand\n", "WATCHDOG=1\n"}, said)
}

// A task speaks to its agent, and never to the agent's service manager.
func TestTasksDoNotGetTheServiceManagersSocket(t *testing.T) {
	m := newServiceManager(t)
	t.Setenv("WATCHDOG_USEC", "60000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	r := startAgent(t, `task "show" {
  command {
    argv = ["env"]
  }
}`)
	id, _, err := ops.Enqueue(t.Context(), r.agent.store, store.EnqueueRequest{Type: "show"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = ops.Wait(ctx, r.agent.store, []task.ID{id}, ops.Watch{})
	require.NoError(t, err)
	info, err := r.agent.store.Get(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, info.Output, "LEASEHOLD_TASK_ID=")
	require.NotContains(t, info.Output, os.Getenv("NOTIFY_SOCKET"))
	require.NotContains(t, info.Output, "WATCHDOG_")
	r.stop(t)
	m.until("STOPPING=1")
}

func TestWithoutAServiceManagerNothingIsSaid(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	require.NoError(t, os.Unsetenv("NOTIFY_SOCKET"))
	require.Nil(t, newManager(&stuck{}, quiet()))
	t.Setenv("NOTIFY_SOCKET", "/nowhere")
	t.Setenv("WATCHDOG_USEC", "1000000")
	t.Setenv("WATCHDOG_PID", "1")
	require.False(t, newManager(&stuck{}, quiet()).watch, "that watchdog is for another process")
}
