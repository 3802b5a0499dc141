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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
	"github.com/leasehold/leasehold/test/pressure"
)

// How the tasks of this file are declared: what hangs is stopped at the end of a window, at once.
const (
	beat  = 2 * time.Second
	stop  = 2 * time.Second // task.StopMargin, and no grace
	slack = time.Second
)

// hanging are tasks that stop making progress, by channel and kind of target. A command says its process id first.
var hanging = map[string]string{
	"command that never pings": `argv = ["sh", "-c", "echo $$ > pid; sleep 60"]`,
	"command, fd 3":            `argv = ["sh", "-c", "echo $$ > pid; echo 0.4 >&3; sleep 60"]`,
	"command, ping URL":        `argv = ["sh", "-c", "echo $$ > pid; curl -fsS -o /dev/null $LEASEHOLD_PING_URL; sleep 60"]`,
	"command, leasehold ping":  `argv = ["sh", "-c", "echo $$ > pid; $LEASEHOLD ping 0.4; sleep 60"]`,
	"command, notify socket": `argv = ["sh", "-c", "echo $$ > pid; exec python3 -c 'import os,socket,time; ` +
		`s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM); s.sendto(b\"WATCHDOG=1\",os.environ[\"NOTIFY_SOCKET\"]); time.sleep(60)'"]`,
	"command whose thread pings over a hung loop": `argv = ["sh", "-c", "echo $$ > pid; while :; do echo 0.4 >&3; sleep 0.2; done"]`,
	"command whose thread toggles":                `argv = ["sh", "-c", "echo $$ > pid; while :; do echo 0.5 >&3; echo 0.4 >&3; sleep 0.2; done"]`,
	"command whose thread toggles, a number and a text": `argv = ["python3", "-c", "import os,time\nopen('pid','w').write(str(os.getpid()))\n` +
		`while True:\n for p in (b'{\"progress\": 0.4}\\n', b'{\"progress\": \"0.4\"}\\n'): os.write(3, p); time.sleep(0.1)"]`,
	"command whose thread toggles, notify socket": `argv = ["python3", "-c", "import os,socket,time\nopen('pid','w').write(str(os.getpid()))\n` +
		`s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)\nwhile True:\n for p in (b'{\"a\":1,\"b\":2}', b'{\"b\":2,\"a\":1.0}'): ` +
		`s.sendto(b'WATCHDOG=1\\nX_LEASEHOLD_CHECKPOINT='+p, os.environ['NOTIFY_SOCKET']); time.sleep(0.1)"]`,
	"webhook whose thread toggles":                "/toggle",
	"webhook whose thread toggles, stream":        "/toggle/stream",
	"webhook that never pings":                    "/silent",
	"webhook, ping URL":                           "/ping",
	"webhook, stream":                             "/stream",
	"webhook, accepted":                           "/accept",
	"webhook whose thread pings over a hung loop": "/thread",
}

// TestWhatHangsIsCaught has tasks hang beside a healthy agent: each is stopped and due again within its heartbeat, its
// stop and a second.
func TestWhatHangsIsCaught(t *testing.T) {
	h := newHouse(t, 1)
	server := httptest.NewServer(http.HandlerFunc(hang))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	dir := t.TempDir()
	accepted.Store(0)
	ids := make(map[string]int64)
	var config strings.Builder
	for name, target := range hanging {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
		block := fmt.Sprintf("command {\n    %s\n    dir = %q\n    stop_grace = \"0s\"\n    env = { LEASEHOLD = %q }\n  }",
			target, filepath.Join(dir, name), harness.Binary(t))
		if strings.HasPrefix(target, "/") {
			block = fmt.Sprintf("webhook {\n    url = %q\n    async = true\n    cancel_grace = \"0s\"\n  }", server.URL+target)
		}
		fmt.Fprintf(&config, "task %q {\n  heartbeat = %q\n  require_progress = %t\n  retry {\n    min = \"1m\"\n  }\n  %s\n}\n",
			typeOf(name), beat, strings.Contains(name, "thread"), block)
	}
	agent := harness.StartAgent(t, harness.AgentOptions{Name: "agent", Store: h.url, Config: config.String()})
	watch := pressure.Start()
	for name, target := range hanging {
		var id int64
		require.NoError(t, h.app.QueryRow(t.Context(), `INSERT INTO leasehold.task (type) VALUES ($1) RETURNING id`, typeOf(name)).Scan(&id))
		ids[name] = id
		// One after the other: what starts beside all others may take longer on a slow machine than its heartbeat.
		harness.Until(t, workWithin, name+" has begun", func() bool {
			said, err := os.ReadFile(filepath.Join(dir, name, "pid"))
			begun := strings.HasPrefix(target, "/") || err == nil && len(said) > 0
			return h.number(`SELECT count(*) FROM leasehold.task WHERE state = 'pending'`) == 0 &&
				(begun || h.number(`SELECT count(*) FROM leasehold.attempt`) == int64(len(ids)))
		})
	}
	harness.Until(t, 30*time.Second, "each is due again", func() bool {
		return h.number(`SELECT count(*) FROM leasehold.task WHERE state = 'retry_pending'`) == int64(len(hanging))
	})
	for name, id := range ids {
		t.Run(name, func(t *testing.T) {
			var outcome string
			var took float64
			// Since its start, or since its last ping where a handler has noted that.
			require.NoError(t, h.admin.QueryRow(t.Context(), `SELECT a.outcome,
				extract(epoch FROM a.ended_at - coalesce(a.started_at, to_timestamp($2::double precision)))
				FROM leasehold.attempt AS a WHERE a.task_id = $1`, id, float64(accepted.Load())/1e6).Scan(&outcome, &took))
			require.Equal(t, "stalled", outcome)
			require.Less(t, time.Duration(took*float64(time.Second)), beat+stop+slack+watch.Waited())
			t.Logf("caught after %.2f s", took)
			if pid, err := os.ReadFile(filepath.Join(dir, name, "pid")); err == nil {
				n, err := strconv.Atoi(strings.TrimSpace(string(pid)))
				require.NoError(t, err)
				require.ErrorIs(t, syscall.Kill(n, 0), syscall.ESRCH, "its process is gone")
			} else {
				require.Contains(t, name, "webhook")
			}
		})
	}
	agent.Drain(t)
}

func typeOf(name string) string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(name)
}

// accepted is when the task that goes on without a connection was accepted, in microseconds of Unix time: what has no
// attempt of an agent's has no start in the history.
var accepted atomic.Int64

// hang is an endpoint whose handlers stop making progress.
func hang(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	url := r.Header.Get("Leasehold-Ping-Url")
	switch r.URL.Path {
	case "/ping":
		ping(url)
	case "/stream":
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, "{\"progress\": 0.1}\n")
		_ = http.NewResponseController(w).Flush()
	case "/accept":
		accepted.Store(time.Now().UnixMicro())
		w.WriteHeader(http.StatusAccepted)
		return
	case "/toggle", "/toggle/stream":
		toggle(w, r, url)
		return
	case "/thread":
		for ticker := time.NewTicker(200 * time.Millisecond); ; {
			select {
			case <-ticker.C:
				ping(url)
			case <-r.Context().Done():
				ticker.Stop()
				return
			}
		}
	}
	<-r.Context().Done()
}

// toggle reports the same two positions again and again, in different words, until the request ends.
func toggle(w http.ResponseWriter, r *http.Request, url string) {
	reports := []string{
		`{"progress": {"done": 5, "total": 9}, "checkpoint": {"a": 1, "b": [0.4]}}`,
		`{"progress": {"total": 9, "done": 4}, "checkpoint": {"b": [0.40], "a": 1}}`,
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
		if strings.HasSuffix(r.URL.Path, "stream") {
			_, _ = io.WriteString(w, reports[n%2]+"\n")
			_ = http.NewResponseController(w).Flush()
		} else {
			post(url, reports[n%2])
		}
	}
}

// ping repeats the same progress. Whether the ping arrives does not matter here.
func ping(url string) { post(url, `{"progress": 0.4}`) }

func post(url, body string) {
	client := http.Client{Timeout: beat}
	resp, err := client.Post(url, "application/json", strings.NewReader(body)) //nolint:noctx // it has a time limit
	if err == nil {
		_ = resp.Body.Close()
	}
}
