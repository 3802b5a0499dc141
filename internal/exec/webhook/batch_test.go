package webhook

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// element is a task as a handler of batches sees it.
type element struct {
	Data json.RawMessage
	Task struct {
		ID          int64
		Fence       int64
		Attempt     int
		WebhookID   string `json:"webhook_id"`
		Traceparent string
		PingURL     string `json:"ping_url"`
	}
}

// elementsOf reads the request of a batch.
func elementsOf(t *testing.T, body []byte) []element {
	t.Helper()
	var doc struct {
		Type      string
		Timestamp time.Time
		Data      struct{ Tasks []element }
		Task      *struct{}
	}
	if !json.Valid(body) || json.Unmarshal(body, &doc) != nil || doc.Type != "invoice.send" || doc.Timestamp.IsZero() || doc.Task != nil {
		t.Errorf("malformed: %s", body)
	}
	return doc.Data.Tasks
}

// outcomes are the ends of the attempts of a batch.
type outcomes struct {
	mu   sync.Mutex
	of   map[int]task.Outcome
	more int // that ended twice
	each chan int
}

func (o *outcomes) ended(i int, end task.Outcome) {
	o.mu.Lock()
	if _, there := o.of[i]; there {
		o.more++
	}
	o.of[i] = end
	o.mu.Unlock()
	o.each <- i
}

func (o *outcomes) get(i int) task.Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[i]
}

// wait waits until so many have ended.
func (o *outcomes) wait(n int) {
	for range n {
		<-o.each
	}
}

func batched(url string) *task.Webhook {
	return &task.Webhook{URL: exectest.Text(url), Method: http.MethodPost, CancelGrace: 5 * time.Second, Batch: &task.Batch{Max: 100}}
}

// leases makes attempts with the ids 1 to n.
func leases(t *testing.T, n int, a exectest.Attempt) []*lease.Lease {
	t.Helper()
	ls := make([]*lease.Lease, n)
	for i := range ls {
		a.Task.ID = task.ID(i + 1)
		ls[i] = a.Lease()
		t.Cleanup(ls[i].Close)
	}
	return ls
}

// begin runs a batch in the background; over is closed when it is over.
func begin(t *testing.T, c *Client, ls []*lease.Lease, w *task.Webhook) (o *outcomes, over chan struct{}) {
	t.Helper()
	o = &outcomes{of: map[int]task.Outcome{}, each: make(chan int, 2*len(ls))}
	over = make(chan struct{})
	go func() {
		defer close(over)
		c.RunMany(ls, declared(w), w, o.ended)
	}()
	t.Cleanup(func() {
		for _, l := range ls {
			l.Stop(&lease.Cause{Verdict: task.Drained})
		}
		<-over
	})
	return o, over
}

// runMany runs a batch to its end.
func runMany(t *testing.T, c *Client, ls []*lease.Lease, w *task.Webhook) []task.Outcome {
	t.Helper()
	o, over := begin(t, c, ls, w)
	<-over
	require.Len(t, o.of, len(ls), "each ends")
	require.Zero(t, o.more, "and once")
	out := make([]task.Outcome, len(ls))
	for i := range out {
		out[i] = o.of[i]
	}
	return out
}

// quiet makes a client that does not log.
func quiet(t *testing.T) *Client {
	t.Helper()
	c := New(Options{Version: "1.2.3", Workers: 4, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(c.Close)
	return c
}

const ndjsonType = "application/x-ndjson"

// saying answers with a status, a type and a body, and checks what came.
func saying(t *testing.T, status int, header map[string]string, body string) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		elementsOf(t, got)
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// The response table of batches: what each of three tasks, and a task that is alone, gets.
func TestBatchTable(t *testing.T) {
	ok := func(result string) task.Outcome {
		return task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(result)}
	}
	lineless := task.Outcome{Verdict: task.Failed, EndUnknown: true, Error: "the answer ended without a line for this task"}
	unaware := func(status int, text string) task.Outcome {
		return task.Outcome{
			Verdict: task.Failed, EndUnknown: true,
			Error: fmt.Sprintf("answered %d without a line for each task, as an endpoint does that knows no batches%s", status, text),
		}
	}
	shared := func(text string) task.Outcome {
		return task.Outcome{Verdict: task.Drained, Shared: true, Error: "the request failed, which had 3 tasks: " + text}
	}
	lines := map[string]string{"Content-Type": ndjsonType + "; charset=utf-8"}
	array := map[string]string{"Content-Type": "application/json"}
	all := func(o task.Outcome) []task.Outcome { return []task.Outcome{o, o, o} }
	failed := task.Outcome{Verdict: task.Failed, Error: "answered 500: oops"}
	for name, c := range map[string]struct {
		status int
		header map[string]string
		body   string
		want   []task.Outcome
		alone  task.Outcome // of task 1 alone
	}{
		"lines in any order": {
			200, lines, `{"id":3,"error":"no","retryable":false}` + "\n" + `{"id":1,"result":{"a":1}}` + "\n" + `{"id":2,"deferred":{"retry_after_s":30}}`,
			[]task.Outcome{
				ok(`{"a":1}`), {Verdict: task.Deferred, RetryAfter: 30 * time.Second, Error: "the endpoint deferred it"}, {Verdict: task.Rejected, Error: "no"},
			},
			ok(`{"a":1}`),
		},
		"an array": {
			200, array, " \n[ {\"id\": 1, \"result\": \"],[\\\"\"},\n{\"id\": 2, \"stale\": true} , {\"error\": \"why\", \"id\": 3}]\n",
			[]task.Outcome{
				ok(`"],[\""`),
				{Verdict: task.Superseded, EndUnknown: true, Error: "the application knows a newer attempt"},
				{Verdict: task.Failed, Error: "why"},
			},
			ok(`"],[\""`),
		},
		"207 with lines": {207, lines, "{\"id\":2}\n{\"id\":2,\"result\":null}\n", []task.Outcome{lineless, {Verdict: task.Succeeded}, lineless}, lineless},
		"the first last line counts": {
			200, lines, "{\"id\":1,\"result\":1}\n{\"id\":1,\"error\":\"late\"}\n{\"id\":2,\"error\":\"x\"}\n{\"id\":2,\"result\":1}\n{\"id\":3,\"result\":3}\n",
			[]task.Outcome{ok(`1`), {Verdict: task.Failed, Error: "x"}, ok(`3`)},
			ok(`1`),
		},
		"lines of others": {
			200, lines, "{\"id\":4,\"result\":1}\n{\"id\":\"1\",\"result\":1}\n{\"result\":1}\nnoise\n[1]\n{\"id\":1.0,\"result\":1}\n{\"id\":1,\"fence\":8,\"result\":1}\n" +
				"{\"id\":2,\"fence\":9,\"result\":2}\n",
			[]task.Outcome{lineless, ok(`2`), lineless},
			lineless,
		},
		"an empty array":    {200, array, "[]", all(lineless), lineless},
		"no lines":          {200, lines, "", all(lineless), lineless},
		"204":               {204, nil, "", all(task.Outcome{Verdict: task.Succeeded}), task.Outcome{Verdict: task.Succeeded}},
		"200 without":       {200, array, `{"ok":true}`, all(unaware(200, `: {"ok":true}`)), unaware(200, `: {"ok":true}`)},
		"200 empty":         {200, nil, "", all(unaware(200, "")), unaware(200, "")},
		"200 lines as text": {200, map[string]string{"Content-Type": "text/plain"}, `{"id":1,"result":1}`, all(unaware(200, `: {"id":1,"result":1}`)), unaware(200, `: {"id":1,"result":1}`)},
		"200 HTML":          {200, nil, "<html><title>Sign in</title>", all(unaware(200, ": Sign in")), unaware(200, ": Sign in")},
		"202":               {202, nil, "", all(unaware(202, "")), unaware(202, "")},
		"429": {
			429, map[string]string{"Retry-After": "7"}, "", all(task.Outcome{Verdict: task.Deferred, RetryAfter: 7 * time.Second, Error: "answered 429: Too Many Requests"}),
			task.Outcome{Verdict: task.Deferred, RetryAfter: 7 * time.Second, Error: "answered 429: Too Many Requests"},
		},
		"425": {
			425, nil, "", all(task.Outcome{Verdict: task.Deferred, Error: "answered 425: Too Early"}),
			task.Outcome{Verdict: task.Deferred, Error: "answered 425: Too Early"},
		},
		"503 counts once": {
			503, nil, "", []task.Outcome{
				{Verdict: task.Deferred, Unavailable: true, Error: "answered 503: Service Unavailable"},
				{Verdict: task.Deferred, Error: "answered 503: Service Unavailable"}, {Verdict: task.Deferred, Error: "answered 503: Service Unavailable"},
			},
			task.Outcome{Verdict: task.Deferred, Unavailable: true, Error: "answered 503: Service Unavailable"},
		},
		"500": {500, nil, "oops", all(shared("answered 500: oops")), failed},
		"400": {400, nil, "oops", all(shared("answered 400: oops")), task.Outcome{Verdict: task.Rejected, Error: "answered 400: oops"}},
		"422": {422, nil, "oops", all(shared("answered 422: oops")), task.Outcome{Verdict: task.Rejected, Error: "answered 422: oops"}},
		"302": {302, nil, "oops", all(shared("answered 302: oops")), task.Outcome{Verdict: task.Failed, Error: "answered 302: oops"}},
		"500 with lines": {
			500, lines, "{\"id\":1,\"result\":1}\n", all(shared(`answered 500: {"id":1,"result":1}`)),
			task.Outcome{Verdict: task.Failed, Error: `answered 500: {"id":1,"result":1}`},
		},
		"a problem": {
			503, map[string]string{"Content-Type": "application/problem+json"}, `{"title":"x","retryable":false}`, all(shared("answered 503: x")),
			task.Outcome{Verdict: task.Rejected, Error: "answered 503: x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := batched(saying(t, c.status, c.header, c.body))
			w.Permanent = []int{400}
			require.Equal(t, c.want, runMany(t, quiet(t), leases(t, 3, exectest.Attempt{}), w))
			require.Equal(t, c.alone, runMany(t, quiet(t), leases(t, 1, exectest.Attempt{}), w)[0])
		})
	}
}

// The request of a batch: signed as a whole, each task in it as it would be alone, and nothing of a single task in the header.
func TestBatchRequest(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	var header http.Header
	var body []byte
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Clone()
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusNoContent)
	})
	w := batched(url)
	w.Secrets = []string{secret}
	w.Headers = map[string]task.Template{"X-Team": exectest.Text("billing")}
	ls := leases(t, 3, exectest.Attempt{Task: task.Task{Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}})
	ls[1].SetPingURL(func() string { return "http://127.0.0.1:7070/ping/2" })
	require.Len(t, runMany(t, quiet(t), ls, w), 3)
	hook, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	require.NoError(t, hook.Verify(body, header))
	require.Regexp(t, "^batch_[0-9a-f]{32}$", header.Get("Webhook-Id"))
	require.Equal(t, "invoice.send", header.Get("Leasehold-Type"))
	require.Equal(t, "run", header.Get("Leasehold-Phase"))
	require.Equal(t, "billing", header.Get("X-Team"))
	for _, name := range []string{"Task", "Attempt", "Fence", "Deadline", "Ping-Url"} {
		require.Empty(t, header.Get("Leasehold-"+name), name)
	}
	require.Empty(t, header.Get("Traceparent"))
	sent := elementsOf(t, body)
	require.Len(t, sent, 3)
	for i, e := range sent {
		require.JSONEq(t, `{"invoice": 7}`, string(e.Data))
		require.EqualValues(t, i+1, e.Task.ID)
		require.EqualValues(t, 9, e.Task.Fence)
		require.Equal(t, fmt.Sprintf("task_%d", i+1), e.Task.WebhookID)
		require.Regexp(t, "^00-4bf92f3577b34da6a3ce929d0e0e4736-[0-9a-f]{16}-00$", e.Task.Traceparent)
	}
	require.Equal(t, "http://127.0.0.1:7070/ping/2", sent[1].Task.PingURL)
}

// talk is a server that answers batches as the test says, line by line.
type talk struct {
	came chan []element
	say  chan string // "" ends the response
	cut  chan struct{}
	gone chan struct{} // closed when the client has closed the connection
}

func newTalk(t *testing.T) (*talk, string) {
	t.Helper()
	k := &talk{came: make(chan []element, 10), say: make(chan string), cut: make(chan struct{}), gone: make(chan struct{})}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", ndjsonType)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		k.came <- elementsOf(t, body)
		for {
			select {
			case line := <-k.say:
				if line == "" {
					return
				}
				_, _ = io.WriteString(w, line+"\n")
				_ = http.NewResponseController(w).Flush()
			case <-k.cut:
				panic(http.ErrAbortHandler)
			case <-r.Context().Done():
				close(k.gone)
				return
			}
		}
	})
	return k, url
}

// Each line ends its task at once, while the request goes on.
func TestBatchLinesEndTasksAtOnce(t *testing.T) {
	k, url := newTalk(t)
	ls := leases(t, 3, exectest.Attempt{})
	var pings []store.Ping
	ls[2].OnPing(func(p store.Ping, _ store.PingReply) { pings = append(pings, p) })
	o, over := begin(t, quiet(t), ls, batched(url))
	<-k.came
	k.say <- `{"id":2,"result":"two"}`
	require.Equal(t, 1, <-o.each)
	require.Equal(t, task.Succeeded, o.get(1).Verdict)
	k.say <- `{"id":3,"progress":0.5,"message":"half"}`
	k.say <- `{"id":1,"error":"why"}`
	require.Equal(t, 0, <-o.each)
	k.say <- `{"id":3,"result":3}`
	require.Equal(t, 2, <-o.each)
	k.say <- ""
	<-over
	require.Len(t, pings, 1)
	require.Equal(t, "half", pings[0].Message)
	require.JSONEq(t, `0.5`, string(pings[0].Progress))
}

// Of a response that breaks off the lines count; the other tasks are released, and may be at work still. A task that is alone has failed.
func TestBatchThatBreaksOff(t *testing.T) {
	k, url := newTalk(t)
	o, over := begin(t, quiet(t), leases(t, 3, exectest.Attempt{}), batched(url))
	<-k.came
	k.say <- `{"id":2,"result":"two"}`
	o.wait(1)
	close(k.cut)
	<-over
	require.Equal(t, task.Succeeded, o.get(1).Verdict)
	for _, i := range []int{0, 2} {
		end := o.get(i)
		require.Equal(t, task.Drained, end.Verdict)
		require.True(t, end.Shared)
		require.True(t, end.EndUnknown)
		require.False(t, end.NeverStarted)
		require.Contains(t, end.Error, "the request failed, which had 3 tasks: the answer broke off")
	}
	o, over = begin(t, quiet(t), leases(t, 1, exectest.Attempt{}), batched(url))
	<-over
	require.Equal(t, task.Failed, o.get(0).Verdict)
	require.True(t, o.get(0).EndUnknown)
	require.False(t, o.get(0).Shared)
}

// canned answers each request with these bytes, and closes the connection.
func canned(t *testing.T, answer string) string {
	t.Helper()
	return raw(t, func(c net.Conn) {
		request(c)
		_, _ = io.WriteString(c, answer)
	})
}

// Where the end of a response is the end of its connection, and lines are missing, it is unknown whether the server has died: that is no
// good end. An array without its bracket is none either.
func TestBatchWithoutACertainEnd(t *testing.T) {
	for name, answer := range map[string]string{
		"HTTP/1.0":         "HTTP/1.0 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n{\"id\":1,\"result\":1}\n",
		"an open array":    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n[{\"id\":1,\"result\":1} ,",
		"a short body":     "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: 100\r\n\r\n{\"id\":1,\"result\":1}\n",
		"an array cut off": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[{\"id\":1,\"result\":1},{\"id\":2,\"result\":",
	} {
		t.Run(name, func(t *testing.T) {
			out := runMany(t, quiet(t), leases(t, 2, exectest.Attempt{}), batched(canned(t, answer)))
			require.Equal(t, task.Succeeded, out[0].Verdict)
			require.Equal(t, task.Drained, out[1].Verdict)
			require.True(t, out[1].Shared)
			require.True(t, out[1].EndUnknown)
		})
	}
	out := runMany(t, quiet(t), leases(t, 2, exectest.Attempt{}), batched(canned(t, "HTTP/1.0 200 OK\r\n\r\n[{\"id\":1,\"result\":1}]")))
	require.Equal(t, task.Failed, out[1].Verdict, "the array is complete")
}
