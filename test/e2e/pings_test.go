package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/test/harness"
)

// cells are the cases that every channel is tested with. The expected result of each is with the channel.
var cells = []string{"malformed", "too large", "forged", "old", "counts", "repeated"}

// The table of pings: every channel, in every cell. A channel that leaves one out fails.
func TestPingTable(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 1)
	s := newCast(t, h)
	channels := map[string]func(*actor) map[string]func(*testing.T){
		"ping URL, GET":      getCells,
		"ping URL, POST":     postCells,
		"ping URL, complete": completeCells,
		"ping URL, fail":     failCells,
		"stream":             streamCells,
		"descriptor 3":       descriptorCells,
		"notify socket":      notifyCells,
		"leasehold ping":     commandCells,
		"SQL ping":           sqlCells,
	}
	actors := make(map[string]*actor)
	for name := range channels {
		actors[name] = s.actor(name)
	}
	victim := s.actor("victim")
	s.start()
	for _, a := range append(slices.Collect(maps.Values(actors)), victim) {
		a.victim = victim
		a.awaitSecondAttempt(t)
	}
	// A lease that has just been claimed is as long as one that has just been renewed, and a second longer.
	harness.Until(t, workWithin, "a ping moves every lease", func() bool {
		return h.number(`SELECT count(*) FROM leasehold.task WHERE state = 'running' AND claimed_at < now() - interval '1.5 s'`) == int64(len(actors)+1)
	})
	t.Run("channel", func(t *testing.T) {
		for name, of := range channels {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // each waits for the agent's next write, again and again
				have := of(actors[name])
				require.ElementsMatch(t, cells, slices.Collect(maps.Keys(have)), "a missing cell fails")
				for _, cell := range cells {
					t.Run(cell, have[cell])
				}
			})
		}
	})
	require.Empty(t, victim.row(t).message, "no task has pinged for another")
	s.end()
}

// first is a ping that counts once, and a second time is no progress. It is what the cells say, each in its way.
const (
	first = `{"progress": 0.1, "message": "first"}`
	again = `{"progress": 0.1, "message": "again"}`
	bad   = `{"progress": 0.9, "next_within_s": -1}`
	forBy = `{"task": %d, "fence": %d, "message": "forged"}`
)

// large is a ping with a checkpoint that is a byte too long.
var large = `{"progress": 0.9, "checkpoint": "` + strings.Repeat("c", 64<<10-1) + `"}`

// speaking makes the cells of a channel whose pings report progress. say gives what came back, "" for a channel on which
// nothing does; answers are what has to, by cell.
func speaking(a *actor, say func(*testing.T, string) string, answers map[string]string, others map[string]func(*testing.T)) map[string]func(*testing.T) {
	have := map[string]func(*testing.T){
		"counts": func(t *testing.T) {
			before := a.row(t)
			require.Equal(t, answers["counts"], say(t, first))
			a.until(t, "it arrives, and the lease moves", func(now row) bool { return now.message == "first" && now.until > before.until })
			require.Equal(t, "0.1", a.row(t).progress)
		},
		"repeated": func(t *testing.T) {
			before := a.row(t)
			require.Equal(t, answers["repeated"], say(t, again))
			a.until(t, "it arrives", func(now row) bool { return now.message == "again" })
			require.Equal(t, before.until, a.row(t).until, "and renews nothing")
		},
	}
	for cell, text := range map[string]string{"malformed": bad, "too large": large} {
		have[cell] = func(t *testing.T) {
			before := a.row(t)
			require.Equal(t, answers[cell], say(t, text))
			mark := "after " + cell // when this has arrived, everything before it has, too
			say(t, fmt.Sprintf(`{"message": %q}`, mark))
			a.until(t, "what came after it arrives", func(now row) bool { return now.message == mark })
			after := a.row(t)
			require.Equal(t, before.until, after.until)
			require.Empty(t, after.progress)
		}
	}
	maps.Copy(have, others)
	return have
}

// unmoved makes a cell: whatever is done comes to that answer, and moves nothing.
func unmoved(a *actor, want string, do func(*testing.T) string) func(*testing.T) {
	return func(t *testing.T) {
		before := a.row(t)
		require.Equal(t, want, do(t))
		require.Equal(t, before, a.row(t))
	}
}

// asItself makes the cell of a task that names another's row on a channel of its own: its pings count for itself.
func asItself(a *actor, say func(*testing.T, string) string) func(*testing.T) {
	return func(t *testing.T) {
		say(t, fmt.Sprintf(forBy, a.victim.id, a.victim.row(t).fence))
		a.until(t, "it arrives as the task's own", func(now row) bool { return now.message == "forged" })
		require.Empty(t, a.victim.row(t).message)
	}
}

func getCells(a *actor) map[string]func(*testing.T) {
	get := func(url string) func(*testing.T) string {
		return func(t *testing.T) string { return request(t, http.MethodGet, url, "") }
	}
	return map[string]func(*testing.T){
		"malformed": unmoved(a, "404", get(a.url[:len(a.url)-10])),
		"too large": unmoved(a, "404", get(a.url+strings.Repeat("x", 16<<10))),
		"forged":    unmoved(a, "404", get(forged(a.url))),
		"old":       unmoved(a, "410", get(a.oldURL)),
		"counts": func(t *testing.T) {
			before := a.row(t)
			require.Equal(t, "200 counted", get(a.url)(t))
			a.until(t, "the lease moves", func(now row) bool { return now.until > before.until })
		},
		"repeated": func(t *testing.T) { // it reports no progress, and its type requires none: each proves that the task is alive
			before := a.row(t)
			require.Equal(t, "200 counted", get(a.url)(t))
			a.until(t, "the lease moves once more", func(now row) bool { return now.until > before.until })
		},
	}
}

func postCells(a *actor) map[string]func(*testing.T) {
	say := func(t *testing.T, text string) string { return request(t, http.MethodPost, a.url, text) }
	return speaking(a, say, map[string]string{"counts": "200 counted", "repeated": "200", "malformed": "400", "too large": "413"},
		map[string]func(*testing.T){
			"forged": unmoved(a, "404", func(t *testing.T) string { return request(t, http.MethodPost, forged(a.url), first) }),
			"old":    unmoved(a, "410", func(t *testing.T) string { return request(t, http.MethodPost, a.oldURL, first) }),
		})
}

func completeCells(a *actor) map[string]func(*testing.T) {
	post := func(url, body string) func(*testing.T) string {
		return func(t *testing.T) string { return request(t, http.MethodPost, url+"/complete", body) }
	}
	done := func(t *testing.T) {
		require.Equal(t, "200", post(a.url, `{"result": {"done": true}}`)(t), "it has been committed")
		require.EqualValues(t, 1, a.house.number(`SELECT count(*) FROM leasehold.tasks WHERE id = $1 AND state = 'succeeded' AND result = '{"done": true}'`, a.id))
	}
	return map[string]func(*testing.T){
		"malformed": unmoved(a, "400", post(a.url, `{"result": `)),
		"too large": unmoved(a, "413", post(a.url, strings.Replace(large, "checkpoint", "result", 1))),
		"forged":    unmoved(a, "404", post(forged(a.url), `{"result": 1}`)),
		"old":       unmoved(a, "410", post(a.oldURL, `{"result": 1}`)),
		"counts":    done,
		"repeated":  done,
	}
}

func failCells(a *actor) map[string]func(*testing.T) {
	post := func(url, body string) func(*testing.T) string {
		return func(t *testing.T) string { return request(t, http.MethodPost, url+"/fail", body) }
	}
	failed := func(t *testing.T) {
		require.Equal(t, "200", post(a.url, `{"error": "no such thing", "retryable": false}`)(t), "it has been committed")
		require.EqualValues(t, 1, a.house.number(`SELECT count(*) FROM leasehold.tasks WHERE id = $1 AND state = 'failed' AND error LIKE '%no such thing%'`, a.id))
	}
	return map[string]func(*testing.T){
		"malformed": unmoved(a, "400", post(a.url, `{"retryable": "no"}`)),
		"too large": unmoved(a, "413", post(a.url, `{"error": "`+strings.Repeat("e", 200<<10)+`"}`)),
		"forged":    unmoved(a, "404", post(forged(a.url), `{"error": "forged"}`)),
		"old":       unmoved(a, "410", post(a.oldURL, `{"error": "old"}`)),
		"counts":    failed,
		"repeated":  failed,
	}
}

func streamCells(a *actor) map[string]func(*testing.T) {
	say := func(t *testing.T, text string) string {
		t.Helper()
		a.lines <- text + "\n"
		return ""
	}
	return speaking(a, say, nil, map[string]func(*testing.T){
		"forged": asItself(a, say),
		// The first attempt's handler has gone on pinging after its last line.
		"old": unmoved(a, "", func(t *testing.T) string {
			select {
			case <-a.oldOver:
			case <-time.After(workWithin):
				require.Fail(t, "the old stream is still open")
			}
			return ""
		}),
	})
}

func descriptorCells(a *actor) map[string]func(*testing.T) {
	say := func(t *testing.T, text string) string {
		t.Helper()
		file := filepath.Join(a.dir, "line")
		require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
		require.Zero(t, a.puppet(t, "live", "cat line >&3"))
		return ""
	}
	return speaking(a, say, nil, map[string]func(*testing.T){
		"forged": asItself(a, say),
		"old": unmoved(a, "refused", func(t *testing.T) string {
			return refused(a.puppet(t, "old", `(echo '{"progress": 0.9}' >&3) 2>/dev/null`))
		}),
	})
}

func notifyCells(a *actor) map[string]func(*testing.T) {
	send := func(t *testing.T, who, text string) int {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(a.dir, "datagram"), []byte(text), 0o600))
		return a.puppet(t, who, `python3 -c 'import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.sendto(open("datagram", "rb").read(), os.environ["NOTIFY_SOCKET"])' 2>/dev/null`)
	}
	say := func(t *testing.T, text string) string { // in the words of sd_notify(3)
		t.Helper()
		var p struct {
			Progress, Checkpoint json.RawMessage
			Message              string
			Within               int64 `json:"next_within_s"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &p))
		lines := []string{"WATCHDOG=1", "READY=1", "STATUS=" + p.Message, "X_LEASEHOLD_PROGRESS=" + string(p.Progress)}
		if p.Checkpoint != nil {
			lines = append(lines, "X_LEASEHOLD_CHECKPOINT="+string(p.Checkpoint))
		}
		if p.Within != 0 {
			lines = append(lines, fmt.Sprint("EXTEND_TIMEOUT_USEC=", p.Within*1e6))
		}
		require.Zero(t, send(t, "live", strings.Join(lines, "\n")))
		return ""
	}
	return speaking(a, say, nil, map[string]func(*testing.T){
		"forged": asItself(a, say),
		"old":    unmoved(a, "refused", func(t *testing.T) string { return refused(send(t, "old", "WATCHDOG=1\nX_LEASEHOLD_PROGRESS=0.9")) }),
	})
}

func commandCells(a *actor) map[string]func(*testing.T) {
	say := func(t *testing.T, text string) string { // in words of its own
		t.Helper()
		var p struct {
			Progress, Checkpoint json.RawMessage
			Message              string
			Within               int `json:"next_within_s"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &p))
		require.NoError(t, os.WriteFile(filepath.Join(a.dir, "checkpoint"), p.Checkpoint, 0o600))
		command := fmt.Sprintf(`$LEASEHOLD ping '%s' --message '%s' --checkpoint "$(cat checkpoint)"`, p.Progress, p.Message)
		if p.Within != 0 {
			command += fmt.Sprintf(" --next-within=%ds", p.Within)
		}
		return fmt.Sprint("exit ", a.puppet(t, "live", command))
	}
	answers := map[string]string{"counts": "exit 0", "repeated": "exit 0", "malformed": "exit 2", "too large": "exit 2"}
	return speaking(a, say, answers, map[string]func(*testing.T){
		"forged": unmoved(a, "exit 1", func(t *testing.T) string {
			return fmt.Sprint("exit ", a.puppet(t, "live", `forged=${LEASEHOLD_PING_URL%?}A
[ "$forged" != "$LEASEHOLD_PING_URL" ] || forged=${LEASEHOLD_PING_URL%?}B
LEASEHOLD_PING_URL=$forged $LEASEHOLD ping 0.9`))
		}),
		"old": unmoved(a, "exit 1", func(t *testing.T) string {
			return fmt.Sprint("exit ", a.puppet(t, "old", "$LEASEHOLD ping 0.9 2>/dev/null")) // its stderr has no reader any more
		}),
	})
}

func sqlCells(a *actor) map[string]func(*testing.T) {
	ask := func(t *testing.T, fence int64, text string) string {
		t.Helper()
		var reply struct{ Counted bool }
		var p struct {
			Progress, Checkpoint *json.RawMessage
			Message              string
			Within               *float64 `json:"next_within_s"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &p))
		var progress *string
		if p.Progress != nil {
			s := string(*p.Progress)
			progress = &s
		}
		err := a.house.app.QueryRow(t.Context(), `SELECT leasehold.ping($1, $2, $3, $4, $5, $6)`,
			a.id, fence, progress, p.Checkpoint, p.Message, p.Within).Scan(&reply)
		if err != nil {
			var e interface{ SQLState() string }
			require.ErrorAs(t, err, &e)
			return e.SQLState()
		}
		if reply.Counted {
			return "counted"
		}
		return ""
	}
	say := func(t *testing.T, text string) string { return ask(t, a.row(t).fence, text) }
	answers := map[string]string{"counts": "counted", "malformed": "22023", "too large": "22023"}
	return speaking(a, say, answers, map[string]func(*testing.T){
		"forged": unmoved(a, "LH410", func(t *testing.T) string { return ask(t, a.row(t).fence+1, first) }),
		"old":    unmoved(a, "LH410", func(t *testing.T) string { return ask(t, a.oldFence, first) }),
	})
}

// forged is a URL with another last digit.
func forged(url string) string {
	last := "A"
	if strings.HasSuffix(url, last) {
		last = "B"
	}
	return url[:len(url)-1] + last
}

// request asks and gives the status, and whether the ping counted.
func request(t *testing.T, method, url, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	var reply struct{ Counted bool }
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &reply), "%s", text)
	if reply.Counted {
		return fmt.Sprint(resp.StatusCode, " counted")
	}
	return fmt.Sprint(resp.StatusCode)
}

func refused(status int) string {
	if status == 0 {
		return "taken"
	}
	return "refused"
}

// mkfifo makes a FIFO.
func mkfifo(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, unix.Mkfifo(path, 0o600))
}
