package tryout_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/exec/tryout"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// attempt runs one attempt of a webhook that target serves, and returns its outcome, what would follow, and its pings.
func attempt(t *testing.T, async bool, target func(w http.ResponseWriter, pingURL string)) (task.Outcome, task.Transition, []store.Ping) {
	t.Helper()
	return attemptOf(t, async, func(typ *task.Type) *tryout.Tryout { return tryout.New("a", nil, typ, task.Run) }, target)
}

func attemptOf(
	t *testing.T, async bool, open func(*task.Type) *tryout.Tryout, target func(w http.ResponseWriter, pingURL string),
) (task.Outcome, task.Transition, []store.Ping) {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		target(w, r.Header.Get("Leasehold-Ping-Url"))
	}))
	defer app.Close()
	typ := &task.Type{
		Name: "a", Target: &task.Webhook{Method: http.MethodPost, URL: exectest.Text(app.URL), Async: async},
		Policy: task.Policy{
			Timeout: 20 * time.Second, Heartbeat: 10 * time.Second, Async: async, Stop: task.StopLength(time.Second),
			Retry: task.Retry{Backoff: task.Constant, Min: time.Minute, Max: time.Minute, Limit: 1, On: task.DefaultOn()},
		},
	}
	log := slog.New(slog.DiscardHandler)
	try := open(typ)
	defer try.Close()
	require.Zero(t, try.Lease().Task().Fence, "it may hold no task of any store")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	var pings []store.Ping
	require.NoError(t, try.Listen(listener, func(p store.Ping, _ store.PingReply) {
		mu.Lock()
		defer mu.Unlock()
		pings = append(pings, p)
	}, log))
	runner := exec.New(exec.Options{Log: log, Workers: 1})
	defer runner.Close()
	out := try.Run(runner)
	mu.Lock()
	defer mu.Unlock()
	return out, try.Next(out), pings
}

// post posts to a ping URL, and returns the status of the response; 0: the attempt was over before it came.
func post(t *testing.T, url, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func TestPingsOfAnAttempt(t *testing.T) {
	out, next, pings := attempt(t, false, func(w http.ResponseWriter, url string) {
		require.Equal(t, http.StatusOK, post(t, url, `{"message": "half"}`))
		require.Equal(t, http.StatusBadRequest, post(t, url+"/fail", `{"error": "no room"}`), "only after a 202")
		http.Error(w, "busy", http.StatusInternalServerError)
	})
	require.Equal(t, task.Failed, out.Verdict)
	require.Equal(t, task.StateRetryPending, next.State)
	require.Equal(t, time.Minute, next.Delay, "the middle of its jitter")
	require.Len(t, pings, 1)
	require.Equal(t, "half", pings[0].Message)
}

func TestPingsOfAnAttemptOfATask(t *testing.T) {
	out, _, pings := attemptOf(t, false, func(typ *task.Type) *tryout.Tryout {
		return tryout.From(&store.TaskInfo{ID: 7, Type: "a", Payload: json.RawMessage(`{}`), State: task.StateFailed, Attempt: 1}, nil, nil, typ, task.Run)
	}, func(w http.ResponseWriter, url string) {
		require.Equal(t, http.StatusOK, post(t, url, `{"message": "half"}`))
		require.Equal(t, http.StatusOK, post(t, url+"/complete", `{}`))
	})
	require.Equal(t, task.Succeeded, out.Verdict)
	require.Len(t, pings, 1)
}

func TestAnAttemptReportsItsEnd(t *testing.T) {
	var later sync.WaitGroup
	out, next, _ := attempt(t, true, func(w http.ResponseWriter, url string) {
		w.WriteHeader(http.StatusAccepted)
		later.Go(func() { post(t, url+"/fail", `{"error": "no room"}`) })
	})
	later.Wait()
	require.Equal(t, task.Failed, out.Verdict)
	require.Equal(t, "no room", out.Error)
	require.Equal(t, task.StateRetryPending, next.State)

	out, next, _ = attempt(t, false, func(w http.ResponseWriter, url string) {
		post(t, url+"/complete", `{"result": {"rows": 7}}`)
		http.Error(w, "too late to fail", http.StatusInternalServerError)
	})
	require.Equal(t, task.Succeeded, out.Verdict, "what the task itself reports counts")
	require.JSONEq(t, `{"rows": 7}`, string(out.Result))
	require.Equal(t, task.StateSucceeded, next.State)
}
