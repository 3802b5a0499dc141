package webhook

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client makes a client that the test closes.
func client(t *testing.T) *Client {
	t.Helper()
	c := New(Options{Version: "1.2.3", Workers: 4})
	t.Cleanup(c.Close)
	return c
}

// serve starts a server and gives its URL.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func declared(w *task.Webhook) *task.Type {
	return &task.Type{Name: "invoice.send", Target: w, Source: "tasks.hcl:3"}
}

// run runs one attempt to its end.
func run(t *testing.T, c *Client, a exectest.Attempt, w *task.Webhook) task.Outcome {
	t.Helper()
	l := a.Lease()
	defer l.Close()
	return c.Run(l, declared(w), w)
}

func to(url string) *task.Webhook {
	return &task.Webhook{URL: exectest.Text(url), Method: http.MethodPost}
}

func TestAnswerTable(t *testing.T) {
	const problem = "application/problem+json; charset=utf-8"
	const page = "<!DOCTYPE html><html><head><title>RuntimeError at /hello</title><style>p{}</style></head><body><p>no mail\n server</p></body></html>"
	for name, c := range map[string]struct {
		status    int
		header    map[string]string
		body      string
		permanent []int
		want      task.Outcome
	}{
		"200 JSON":       {status: 200, body: ` {"a": 1}`, want: task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`{"a": 1}`)}},
		"200 text":       {status: 200, body: "done", want: task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`"done"`)}},
		"200 empty":      {status: 200, want: task.Outcome{Verdict: task.Succeeded}},
		"201":            {status: 201, body: "1", want: task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`1`)}},
		"202":            {status: 202, want: task.Outcome{Verdict: task.Succeeded}},
		"204":            {status: 204, want: task.Outcome{Verdict: task.Succeeded}},
		"226":            {status: 226, want: task.Outcome{Verdict: task.Succeeded}},
		"200 declared":   {status: 200, permanent: []int{200}, body: "no", want: task.Outcome{Verdict: task.Rejected, Error: "answered 200: no"}},
		"301":            {status: 301, header: map[string]string{"Location": "/elsewhere"}, want: task.Outcome{Verdict: task.Failed, Error: "answered 301: Moved Permanently"}},
		"307":            {status: 307, header: map[string]string{"Location": "/elsewhere"}, want: task.Outcome{Verdict: task.Failed, Error: "answered 307: Temporary Redirect"}},
		"304":            {status: 304, want: task.Outcome{Verdict: task.Failed, Error: "answered 304: Not Modified"}},
		"400":            {status: 400, body: "bad\nthing", want: task.Outcome{Verdict: task.Failed, Error: "answered 400: bad thing"}},
		"400 declared":   {status: 400, permanent: []int{404, 400}, want: task.Outcome{Verdict: task.Rejected, Error: "answered 400: Bad Request"}},
		"404":            {status: 404, want: task.Outcome{Verdict: task.Failed, Error: "answered 404: Not Found"}},
		"408":            {status: 408, want: task.Outcome{Verdict: task.Failed, Error: "answered 408: Request Timeout"}},
		"409":            {status: 409, want: task.Outcome{Verdict: task.Failed, Error: "answered 409: Conflict"}},
		"410":            {status: 410, want: task.Outcome{Verdict: task.Rejected, Error: "answered 410: Gone"}},
		"422":            {status: 422, body: "no such invoice", want: task.Outcome{Verdict: task.Rejected, Error: "answered 422: no such invoice"}},
		"425":            {status: 425, want: task.Outcome{Verdict: task.Deferred, Error: "answered 425: Too Early"}},
		"429":            {status: 429, header: map[string]string{"Retry-After": "30"}, want: task.Outcome{Verdict: task.Deferred, Error: "answered 429: Too Many Requests", RetryAfter: 30 * time.Second}},
		"500":            {status: 500, body: "oops", want: task.Outcome{Verdict: task.Failed, Error: "answered 500: oops"}},
		"500 HTML":       {status: 500, header: map[string]string{"Content-Type": "text/html; charset=utf-8"}, body: page, want: task.Outcome{Verdict: task.Failed, Error: "answered 500: RuntimeError at /hello: no mail server"}},
		"500 HTML, bare": {status: 500, header: map[string]string{"Content-Type": ""}, body: page, want: task.Outcome{Verdict: task.Failed, Error: "answered 500: RuntimeError at /hello: no mail server"}},
		"502 no text":    {status: 502, header: map[string]string{"Content-Type": "text/html"}, body: "<html></html>", want: task.Outcome{Verdict: task.Failed, Error: "answered 502: Bad Gateway"}},
		"200 HTML":       {status: 200, header: map[string]string{"Content-Type": "text/html"}, body: "<b>done</b>", want: task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`"<b>done</b>"`)}},
		"500 Retry":      {status: 500, header: map[string]string{"Retry-After": "30"}, want: task.Outcome{Verdict: task.Failed, Error: "answered 500: Internal Server Error"}},
		"502":            {status: 502, want: task.Outcome{Verdict: task.Failed, Error: "answered 502: Bad Gateway"}},
		"503":            {status: 503, header: map[string]string{"Retry-After": "7"}, want: task.Outcome{Verdict: task.Deferred, Error: "answered 503: Service Unavailable", RetryAfter: 7 * time.Second, Unavailable: true}},
		"503 declared":   {status: 503, permanent: []int{503}, want: task.Outcome{Verdict: task.Rejected, Error: "answered 503: Service Unavailable"}},
		"599":            {status: 599, want: task.Outcome{Verdict: task.Failed, Error: "answered 599"}},
		"stale":          {status: 409, header: map[string]string{"Content-Type": problem}, body: `{"title":"Old","stale":true}`, want: task.Outcome{Verdict: task.Superseded, Error: "answered 409: Old", EndUnknown: true}},
		"stale declared": {status: 409, permanent: []int{409}, header: map[string]string{"Content-Type": problem}, body: `{"stale":true}`, want: task.Outcome{Verdict: task.Rejected, Error: `answered 409: {"stale":true}`}},
		"no retry":       {status: 500, header: map[string]string{"Content-Type": problem}, body: `{"title":"Bad","detail":"row 7","retryable":false}`, want: task.Outcome{Verdict: task.Rejected, Error: "answered 500: Bad: row 7"}},
		"no retry 503":   {status: 503, header: map[string]string{"Content-Type": problem}, body: `{"retryable":false,"detail":"gone"}`, want: task.Outcome{Verdict: task.Rejected, Error: "answered 503: gone"}},
		"retry":          {status: 503, header: map[string]string{"Content-Type": problem}, body: `{"retryable":true}`, want: task.Outcome{Verdict: task.Deferred, Error: `answered 503: {"retryable":true}`, Unavailable: true}},
		"no problem":     {status: 500, header: map[string]string{"Content-Type": "application/json"}, body: `{"retryable":false}`, want: task.Outcome{Verdict: task.Failed, Error: `answered 500: {"retryable":false}`}},
		"odd problem":    {status: 500, header: map[string]string{"Content-Type": problem}, body: `{"retryable":"no","stale":1,"title":[]}`, want: task.Outcome{Verdict: task.Failed, Error: `answered 500: {"retryable":"no","stale":1,"title":[]}`}},
		"418":            {status: 418, want: task.Outcome{Verdict: task.Failed, Error: "answered 418: I'm a teapot"}},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			w := to(serve(t, func(w http.ResponseWriter, r *http.Request) {
				calls++
				_, _ = io.Copy(io.Discard, r.Body)
				for k, v := range c.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			w.Permanent = c.permanent
			require.Equal(t, c.want, run(t, client(t), exectest.Attempt{}, w))
			require.Equal(t, 1, calls, "answered is delivered: never sent again, never redirected")
		})
	}
}

func TestResultSizes(t *testing.T) {
	w := to(serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.Header.Get("X-N"))
		_, _ = io.WriteString(w, strings.Repeat("1", n))
	}))
	c := client(t)
	size := func(n int) task.Outcome {
		w.Headers = map[string]task.Template{"X-N": exectest.Text(strconv.Itoa(n))}
		return run(t, c, exectest.Attempt{}, w)
	}
	o := size(task.MaxResult - 2)
	require.Equal(t, task.Succeeded, o.Verdict)
	require.Len(t, o.Result, task.MaxResult, "too long a number for a store: quoted")

	o = size(task.MaxResult + 1)
	require.Equal(t, task.Succeeded, o.Verdict)
	require.Nil(t, o.Result)
	require.Contains(t, o.Note, "65537 bytes")

	o = size(3 << 20)
	require.Equal(t, task.Succeeded, o.Verdict)
	require.Contains(t, o.Note, strconv.Itoa(3<<20)+" bytes")

	o = size(maxAnswer + 1)
	require.Equal(t, task.Failed, o.Verdict)
	require.True(t, o.EndUnknown)
	require.Contains(t, o.Error, "did not end: the limit is 16777216 bytes")
}

func TestWhatIsSent(t *testing.T) {
	const secret, older = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	var got *http.Request
	var body []byte
	w := to(serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}) + "/tasks/7?a=b%20c")
	w.Method = http.MethodPut
	w.Secrets = []string{secret, older}
	w.IdempotencyKey = true
	w.Headers = map[string]task.Template{
		"X-Team":          exectest.Text("billing"),
		"host":            exectest.Text("app.internal"),
		"Leasehold-Fence": exectest.Text("1"), // no declared header replaces the protocol's own
	}
	row := task.Task{
		Type: "send-invoice", Attempt: 2, Round: 1, Payload: json.RawMessage(`{ "invoice":7 }`),
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
	l := exectest.Attempt{Task: row}.Lease()
	defer l.Close()
	l.SetPingURL(func() string { return "http://127.0.0.1:7070/ping/4211.9.mac" })
	o := client(t).Run(l, declared(w), w)
	require.Equal(t, task.Outcome{Verdict: task.Succeeded}, o)

	require.Equal(t, http.MethodPut, got.Method)
	require.Equal(t, "/tasks/7?a=b%20c", got.RequestURI)
	require.Equal(t, "app.internal", got.Host)
	require.Equal(t, int64(len(body)), got.ContentLength)
	var doc struct {
		Data json.RawMessage
		Task struct {
			Deadline string
			PingURL  string `json:"ping_url"`
		}
	}
	require.NoError(t, json.Unmarshal(body, &doc))
	require.Equal(t, "http://127.0.0.1:7070/ping/4211.9.mac", doc.Task.PingURL)
	require.Equal(t, `{ "invoice":7 }`, string(doc.Data))
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "leasehold/1.2.3", "X-Team": "billing",
		"webhook-id": "task_4211_r1", "Idempotency-Key": "task_4211_r1",
		"Leasehold-Type": "invoice.send", "Leasehold-Task": "4211", "Leasehold-Phase": "run",
		"Leasehold-Attempt": "2", "Leasehold-Fence": "9", "Leasehold-Deadline": doc.Task.Deadline,
		"Leasehold-Ping-Url": "http://127.0.0.1:7070/ping/4211.9.mac",
	} {
		require.Equal(t, []string{want}, got.Header.Values(name), name)
	}
	require.Regexp(t, "^00-4bf92f3577b34da6a3ce929d0e0e4736-[0-9a-f]{16}-01$", got.Header.Get("traceparent"))
	require.Empty(t, got.Header.Values("Accept-Encoding"))

	for _, key := range []string{secret, older} {
		wh, err := standardwebhooks.NewWebhook(key)
		require.NoError(t, err)
		require.NoError(t, wh.Verify(body, got.Header))
		require.Error(t, wh.Verify(append([]byte(" "), body...), got.Header))
	}
	require.Len(t, strings.Fields(got.Header.Get("webhook-signature")), 2)
}

func TestPlainPayload(t *testing.T) {
	var got *http.Request
	var body string
	w := to(serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		b, _ := io.ReadAll(r.Body)
		body = string(b)
	}))
	w.Body, w.Method = task.BodyPayload, ""
	w.Headers = map[string]task.Template{"Content-Type": exectest.Text("application/vnd.acme+json")}
	o := run(t, client(t), exectest.Attempt{Task: task.Task{Payload: json.RawMessage(`[1, 2]`)}}, w)
	require.Equal(t, task.Succeeded, o.Verdict)
	require.Equal(t, `[1, 2]`, body)
	require.Equal(t, http.MethodPost, got.Method)
	require.Equal(t, "application/vnd.acme+json", got.Header.Get("Content-Type"))
	require.Empty(t, got.Header.Get("webhook-signature"), "no secret, no signature")
	require.Empty(t, got.Header.Get("Idempotency-Key"))
}

func TestRowsThatCannotBeSent(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("sent") })
	bad := func(*task.Task) (string, error) { return "", &lease.Cause{Reason: "tasks.hcl:9: no field invoice"} }
	for name, c := range map[string]struct {
		change func(*task.Webhook, *task.Task)
		want   task.Verdict
		says   string
	}{
		"template":        {func(w *task.Webhook, _ *task.Task) { w.URL = bad }, task.Rejected, "tasks.hcl:9: no field invoice"},
		"header template": {func(w *task.Webhook, _ *task.Task) { w.Headers = map[string]task.Template{"X-A": bad} }, task.Rejected, "tasks.hcl:9"},
		"no URL":          {func(w *task.Webhook, _ *task.Task) { w.URL = exectest.Text("http://[::1") }, task.Rejected, "tasks.hcl:3: url"},
		"no host":         {func(w *task.Webhook, _ *task.Task) { w.URL = exectest.Text("http:///x") }, task.Rejected, "tasks.hcl:3: url"},
		"other scheme":    {func(w *task.Webhook, _ *task.Task) { w.URL = exectest.Text("file:///etc/passwd") }, task.Rejected, "tasks.hcl:3: url"},
		"split header": {func(w *task.Webhook, _ *task.Task) {
			w.Headers = map[string]task.Template{"X-A": exectest.Text("a\r\nX-B: c")}
		}, task.Rejected, "tasks.hcl:3: header X-A"},
		"payload": {func(_ *task.Webhook, row *task.Task) { row.Payload = json.RawMessage(`{`) }, task.Rejected, "not JSON"},
		"secret":  {func(w *task.Webhook, _ *task.Task) { w.Secrets = []string{"not base64!"} }, task.Undelivered, "secret 1 of 1 is not base64"},
	} {
		t.Run(name, func(t *testing.T) {
			w, row := to(url), task.Task{}
			c.change(w, &row)
			l := exectest.Attempt{Task: row}.Lease()
			defer l.Close()
			o := client(t).Run(l, declared(w), w)
			require.Equal(t, c.want, o.Verdict)
			require.Contains(t, o.Error, c.says)
			require.NotContains(t, o.Error, "not base64!", "a secret is not repeated")
			require.True(t, o.NeverStarted)
			require.False(t, o.EndUnknown)
			_, started := l.Started()
			require.False(t, started)
		})
	}
}

func TestNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	w := to(serve(t, func(http.ResponseWriter, *http.Request) {}))
	require.Equal(t, task.Succeeded, run(t, client(t), exectest.Attempt{}, w).Verdict)
	require.Nil(t, client(t).transport.Proxy)
}

func TestIdleConnectionsOfOthersStay(t *testing.T) {
	fresh := make(chan struct{}, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = newConns(fresh)
	s.Start()
	t.Cleanup(s.Close)
	c := client(t)
	require.Equal(t, task.Succeeded, run(t, c, exectest.Attempt{}, to(s.URL)).Verdict)
	require.Equal(t, task.Undelivered, run(t, c, exectest.Attempt{Policy: task.Policy{Timeout: 30 * time.Millisecond}}, to(refusing(t))).Verdict)
	require.Equal(t, task.Succeeded, run(t, c, exectest.Attempt{}, to(s.URL)).Verdict)
	require.Len(t, fresh, 1, "one connection served both")
}
