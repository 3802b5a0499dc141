package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// cast runs one task for each channel of pings. Every first attempt ends at once, and what it pinged with is kept;
// the second one goes on until the cast ends, and sends what the test asks it to.
type cast struct {
	t      *testing.T
	house  *house
	server *httptest.Server
	agent  *harness.Agent
	actors map[string]*actor // by type

	over    chan struct{} // closed: handlers end
	endOnce sync.Once
}

// actor is one such task.
type actor struct {
	house  *house
	typ    string
	id     int64
	dir    string // of its command
	victim *actor // must not receive the pings of others

	ready       chan struct{} // closed when the second attempt is there
	url, oldURL string        // valid from then on, where it is a callback
	oldFence    int64
	mu          sync.Mutex    // guards oldURL and oldFence until then
	lines       chan string   // what its stream is to say
	oldOver     chan struct{} // closed when the stream of the first attempt is cut off
}

// puppetScript is a command that executes the lines that the test sends it, and reports the exit status of each. Its first
// attempt leaves another process behind that does the same.
const puppetScript = `
serve() {
  : >"$1.ready"
  while [ -p "$1.in" ]; do
    read -r line <"$1.in" || continue # a child that is being forked may have had the last line's end open for a moment
    eval "$line"
    echo $? >"$1.out"
  done
}
if [ "$1" = old ]; then serve old; fi # until it gets the line exit
if [ "$LEASEHOLD_ATTEMPT" = 1 ]; then
  setsid sh "$0" old &
  while [ ! -e old.ready ]; do sleep 0.01; done
  exit 1
fi
serve live
`

func newCast(t *testing.T, h *house) *cast {
	t.Helper()
	s := &cast{t: t, house: h, over: make(chan struct{}), actors: make(map[string]*actor)}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.end()
		s.server.CloseClientConnections()
		s.server.Close()
	})
	return s
}

// end lets all handlers end.
func (s *cast) end() {
	s.endOnce.Do(func() { close(s.over) })
}

// actor declares a task.
func (s *cast) actor(name string) *actor {
	s.t.Helper()
	a := &actor{
		house: s.house, typ: typeOf(name), dir: s.t.TempDir(),
		ready: make(chan struct{}), lines: make(chan string), oldOver: make(chan struct{}),
	}
	for _, who := range []string{"old", "live"} {
		for _, end := range []string{".in", ".out"} {
			mkfifo(s.t, filepath.Join(a.dir, who+end))
		}
	}
	require.NoError(s.t, os.WriteFile(filepath.Join(a.dir, "puppet"), []byte(puppetScript), 0o600))
	s.actors[a.typ] = a
	return a
}

// start starts an agent and all tasks.
func (s *cast) start() {
	s.t.Helper()
	s.t.Cleanup(s.dismiss)
	var config strings.Builder
	for typ, a := range s.actors {
		target := fmt.Sprintf("webhook {\n    url = \"%s/%s\"\n    async = true\n  }", s.server.URL, typ)
		switch typ {
		case "descriptor-3", "notify-socket", "leasehold-ping":
			target = fmt.Sprintf("command {\n    argv = [\"sh\", %q]\n    dir = %q\n    env = { LEASEHOLD = %q }\n  }",
				filepath.Join(a.dir, "puppet"), a.dir, harness.Binary(s.t))
		}
		fmt.Fprintf(&config, "task %q {\n  timeout = \"10m\"\n  heartbeat = \"5m\"\n  require_progress = %t\n  retry {\n    min = \"100ms\"\n  }\n  %s\n}\n",
			typ, typ != "ping-URL-GET", target)
	}
	s.agent = harness.StartAgent(s.t, harness.AgentOptions{
		Name: "agent", Store: s.house.url, Agent: "  workers = 16\n  drain = \"1s\"", Config: config.String(),
	})
	for typ, a := range s.actors {
		require.NoError(s.t, s.house.app.QueryRow(s.t.Context(),
			`INSERT INTO leasehold.task (type) VALUES ($1) RETURNING id`, typ).Scan(&a.id))
	}
}

// dismiss ends the processes that first attempts have left behind: they are in a session of their own, and outlive them.
func (s *cast) dismiss() {
	for _, a := range s.actors {
		if _, err := os.Stat(filepath.Join(a.dir, "old.ready")); err == nil {
			if err := os.WriteFile(filepath.Join(a.dir, "old.in"), []byte("exit\n"), 0o600); err != nil {
				s.t.Errorf("a process is left behind: %v", err)
			}
		}
	}
}

// serve is the endpoint of all callbacks.
func (s *cast) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	a := s.actors[strings.TrimPrefix(r.URL.Path, "/")]
	fence, err := strconv.ParseInt(r.Header.Get("Leasehold-Fence"), 10, 64)
	if err != nil || a == nil {
		panic("a request that is none of ours")
	}
	streams := a.typ == "stream"
	if streams {
		w.Header().Set("Content-Type", "application/x-ndjson")
	}
	say := func(text string) error {
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	}
	if a.isFirst(r, fence) {
		if !streams { // not a failure: of that, it could say so once more
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		defer close(a.oldOver)
		for err = say(`{"error": "again"}` + "\n"); err == nil; err = say(`{"progress": 0.9}` + "\n") {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
		return
	}
	a.url = r.Header.Get("Leasehold-Ping-Url")
	close(a.ready)
	switch a.typ {
	case "ping-URL-complete", "ping-URL-fail":
		w.WriteHeader(http.StatusAccepted)
		return
	}
	for {
		select {
		case line := <-a.lines:
			if say(line) != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.over:
			if streams {
				_ = say(`{"result": null}` + "\n")
			}
			return
		}
	}
}

// isFirst reports whether this is the first attempt, and keeps its URL.
func (a *actor) isFirst(r *http.Request, fence int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.oldFence != 0 {
		return false
	}
	a.oldURL, a.oldFence = r.Header.Get("Leasehold-Ping-Url"), fence
	return true
}

// awaitSecondAttempt waits until the task's second attempt accepts requests of the test.
func (a *actor) awaitSecondAttempt(t *testing.T) {
	t.Helper()
	live := filepath.Join(a.dir, "live.ready")
	harness.Until(t, workWithin, a.typ+" is at its second attempt", func() bool {
		select {
		case <-a.ready:
			return true
		default:
		}
		_, err := os.Stat(live)
		return err == nil
	})
}

// puppet has the task's command run a line of shell, the one that lives or the one that the first attempt has left
// behind, and gives how it ended.
func (a *actor) puppet(t *testing.T, who, line string) (status int) {
	t.Helper()
	done := make(chan string, 1)
	go func() { // ends with the command's answer
		if err := os.WriteFile(filepath.Join(a.dir, who+".in"), []byte(strings.ReplaceAll(line, "\n", ";")+"\n"), 0o600); err != nil {
			done <- err.Error()
			return
		}
		answer, err := os.ReadFile(filepath.Join(a.dir, who+".out"))
		if err != nil {
			done <- err.Error()
			return
		}
		done <- strings.TrimSpace(string(answer))
	}()
	timer := time.NewTimer(workWithin)
	defer timer.Stop()
	select {
	case answer := <-done:
		status, err := strconv.Atoi(answer)
		require.NoError(t, err, answer)
		return status
	case <-timer.C:
		require.Fail(t, "the command does not execute the line", line)
		return -1
	}
}

// row is what the store knows of a running task.
type row struct {
	fence             int64
	progress, message string
	until             int64 // when the lease ends, in microseconds
}

func (a *actor) row(t *testing.T) (r row) {
	t.Helper()
	require.NoError(t, a.house.admin.QueryRow(t.Context(), `SELECT fence, coalesce(progress::text, ''), coalesce(message, ''),
		(extract(epoch FROM lease_until) * 1e6)::bigint FROM leasehold.task WHERE id = $1`, a.id).Scan(&r.fence, &r.progress, &r.message, &r.until))
	return r
}

// until waits until the row is so.
func (a *actor) until(t *testing.T, what string, so func(row) bool) {
	t.Helper()
	harness.Until(t, workWithin, what, func() bool { return so(a.row(t)) })
}
