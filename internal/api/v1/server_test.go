package v1

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/store"
)

// everywhere makes a loopback listener look like one on every interface, so that tests open no port to the world.
type everywhere struct{ net.Listener }

func (everywhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 7070} }

// served is an API behind a listener.
type served struct {
	*rig
	server *api.Server
	addr   string
	done   func() error // shuts down
}

func serve(t *testing.T, token string, off bool) *served {
	t.Helper()
	r := onSQLite(t)
	l, err := api.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	s := &served{rig: r, addr: l.Addr().String()}
	if off {
		l = everywhere{l}
	}
	s.server = api.New(l, api.Options{Gatherer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), V1: r.api, Access: api.Access{Token: token}})
	ended := make(chan error, 1)
	go func() { ended <- s.server.Serve() }()
	down := false
	s.done = func() error {
		down = true
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return s.server.Shutdown(ctx)
	}
	t.Cleanup(func() {
		if !down {
			require.NoError(t, s.done())
		}
		require.NoError(t, <-ended)
	})
	return s
}

// send sends a request as it stands, and returns the answer and its body. The connection ends with it.
func (s *served) send(text string) (*http.Response, string) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(s.t, err)
	defer c.Close()
	require.NoError(s.t, c.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = io.WriteString(c, text)
	require.NoError(s.t, err)
	method, _, _ := strings.Cut(text, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	require.NoError(s.t, err, text)
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	return resp, string(body)
}

// TestStrangersAreRefused sends what a page in a browser, a proxy or a client elsewhere can send.
func TestStrangersAreRefused(t *testing.T) {
	s := serve(t, "", false)
	id := s.enqueue(store.EnqueueRequest{Type: "x"})
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"of this host", "GET /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n", 200},
		{"its own page", "GET /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n", 200},
		{"typed into a browser", "GET /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: none\r\n", 200},
		{"a rebound name", "GET /api/v1/tasks HTTP/1.1\r\nHost: evil.example\r\n", 403},
		{"a rebound name that posts", "POST /api/v1/tasks/1/cancel HTTP/1.1\r\nHost: evil.example:7070\r\nContent-Length: 0\r\n", 403},
		{"a rebound name in the line", "GET http://evil.example/api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n", 403},
		{"another page posts", "POST /api/v1/tasks/1/cancel HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 0\r\n", 403},
		{"a sandboxed page posts", "POST /api/v1/tasks/1/cancel HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\nContent-Length: 0\r\n", 403},
		{"an image of another page", "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n", 403},
		{"another port's page", "GET /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-site\r\n", 403},
		{"a proxy", "GET /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nForwarded: for=1.2.3.4\r\n", 403},
		{"a proxy of before", "DELETE /api/v1/schedules/x HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 1.2.3.4\r\n", 403},
		{"a preflight", "OPTIONS /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n", 403},
		{"a preflight of its own", "OPTIONS /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n", 405},
		{"another method", "PATCH /api/v1/tasks/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n", 405},
		{"a method that means another", "GET /api/v1/tasks/1/cancel?_method=POST HTTP/1.1\r\nHost: localhost\r\nX-HTTP-Method-Override: POST\r\n", 405},
		{"a method that means another, of a path", "GET /api/v1/tasks/1 HTTP/1.1\r\nHost: localhost\r\nX-HTTP-Method-Override: DELETE\r\n", 200},
		{"trace", "TRACE /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n", 405},
		{"connect", "CONNECT /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n", 405},
		{"no such path", "GET /api/v1/tasks/1/2/3 HTTP/1.1\r\nHost: localhost\r\n", 404},
		{"another version", "GET /api/v2/tasks HTTP/1.1\r\nHost: localhost\r\n", 404},
		{"capitals", "GET /API/v1/tasks HTTP/1.1\r\nHost: localhost\r\n", 404},
		{"a null in the path", "GET /api/v1/tasks/1%00 HTTP/1.1\r\nHost: localhost\r\n", 400},
		{"lines in the path", "GET /api/v1/tasks/1%0d%0aSet-Cookie:%20a HTTP/1.1\r\nHost: localhost\r\n", 400},
		{"lines in a query", "GET /api/v1/tasks?a%0d%0aSet-Cookie:%20a=b HTTP/1.1\r\nHost: localhost\r\n", 400},
		{"a dot that is a name", "GET /api/v1/schedules/%2e%2e HTTP/1.1\r\nHost: localhost\r\n", 404},
		{"two lengths", "POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n", 400},
		{"a length and chunks", "POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n", 400},
	} {
		resp, body := s.send(c.request + "Connection: close\r\n\r\n" + map[bool]string{true: "0\r\n\r\n"}[strings.Contains(c.request, "chunked")])
		require.Equal(t, c.status, resp.StatusCode, "%s: %s", c.name, body)
		require.Empty(t, resp.Header.Get("Set-Cookie"), c.name)
		require.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"), c.name)
		if c.status >= 400 && !strings.HasPrefix(c.name, "two lengths") {
			require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"), c.name)
		}
	}
	resp, body := s.send("HEAD /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Equal(t, 200, resp.StatusCode)
	require.Empty(t, body)
	resp, _ = s.send("OPTIONS /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Equal(t, "GET, HEAD, POST", resp.Header.Get("Allow"))
	info, err := s.store.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "pending", string(info.State), "nothing has changed it")
}

// TestOffLoopbackNeedsTheToken asks without it, by every path that is open beside the API's.
func TestOffLoopbackNeedsTheToken(t *testing.T) {
	for _, token := range []string{"", "geheim"} {
		s := serve(t, token, true)
		for _, path := range []string{
			"/api/v1/tasks", "/api/v1/openapi.json", "/api/v1/", "/api/v1/events", "/-/..%2fapi/v1/tasks", "/api/v1/tasks?/-/", "/api/v1/tasks?token=geheim",
		} {
			for _, header := range []string{"", "Authorization: Bearer \r\n", "Authorization: Bearer Geheim\r\n", "Authorization: Basic Z2VoZWlt\r\n", "Cookie: token=geheim\r\n"} {
				resp, body := s.send("GET " + path + " HTTP/1.1\r\nHost: agent.example\r\n" + header + "\r\n")
				if strings.HasPrefix(path, "/-/") {
					require.Equal(t, 404, resp.StatusCode)
					continue
				}
				require.Equal(t, 401, resp.StatusCode, "%s %s: %s", path, header, body)
				require.Contains(t, resp.Header.Get("WWW-Authenticate"), "Bearer")
			}
		}
		for _, path := range []string{"/-/../api/v1/tasks", "/ping/../api/v1/tasks", "/metrics/../api/v1/tasks", "//api/v1/tasks"} {
			resp, body := s.send("GET " + path + " HTTP/1.1\r\nHost: agent.example\r\n\r\n")
			require.NotEqual(t, 200, resp.StatusCode, path)
			require.NotContains(t, body, `"tasks"`, path)
		}
		resp, _ := s.send("GET /api/v1/tasks HTTP/1.1\r\nHost: agent.example\r\nX-Forwarded-For: 1.2.3.4\r\nAuthorization: Bearer geheim\r\n\r\n")
		require.Equal(t, map[string]int{"": 401, "geheim": 200}[token], resp.StatusCode)
	}
}

// TestWaitsEndWithTheAgent has a long poll answered when the agent ends.
func TestWaitsEndWithTheAgent(t *testing.T) {
	s := serve(t, "", false)
	s.enqueue(store.EnqueueRequest{Type: "x"})
	got := make(chan string, 1)
	go func() {
		resp, body := s.send("GET /api/v1/tasks/1/wait?timeout=1m HTTP/1.1\r\nHost: localhost\r\n\r\n")
		got <- fmt.Sprint(resp.StatusCode, body)
	}()
	require.Eventually(t, func() bool { // it waits
		free := s.api.bounds.waits.TryAcquire(mostWaits)
		if free {
			s.api.bounds.waits.Release(mostWaits)
		}
		return !free
	}, 20*time.Second, 50*time.Millisecond)
	began := time.Now()
	require.NoError(t, s.done())
	require.Regexp(t, `^200\{"id":1,.*"state":"pending"`, <-got)
	require.Less(t, time.Since(began), 5*time.Second)
}

// deadlines is a ResponseWriter that notes which deadlines it is given.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

// TestLongRequestsOutlastTheListener: net/http ends the context of a request at the read deadline, and cuts the answer at the write deadline.
func TestLongRequestsOutlastTheListener(t *testing.T) {
	r := onSQLite(t)
	r.enqueue(store.EnqueueRequest{Type: "x"})
	for path, body := range map[string]string{"/tasks/1/wait?timeout=1ms": "", "/orphans/x/cancel": "", "/batches?type=x": "{}"} {
		method := http.MethodPost
		if strings.Contains(path, "wait") {
			method = http.MethodGet
		}
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		req := httptest.NewRequestWithContext(t.Context(), method, Prefix+path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/x-ndjson")
		r.api.ServeHTTP(w, req)
		require.Less(t, w.Code, 300, w.Body)
		require.Greater(t, time.Until(w.read), writeMargin/2, path)
		require.Greater(t, time.Until(w.write), writeMargin/2, path)
	}
}

// TestBodiesAreBounded has bodies of tasks under way that fill the room for all.
func TestBodiesAreBounded(t *testing.T) {
	s := serve(t, "", false)
	part := strings.Repeat(" ", maxTask-bodyStep)
	for range mostBodies / maxTask {
		c, err := net.Dial("tcp", s.addr)
		require.NoError(t, err)
		defer c.Close()
		_, err = fmt.Fprintf(c, "POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", maxTask, part)
		require.NoError(t, err)
	}
	left := int64(mostBodies / maxTask * bodyStep) // the first step of each is not counted
	require.Eventually(t, func() bool {
		free := s.api.bounds.bodies.TryAcquire(left + 1)
		if free {
			s.api.bounds.bodies.Release(left + 1)
		}
		return !free
	}, 12*time.Second, 50*time.Millisecond) // they are cut off after 15 s
	large := `{"type": "x", "payload": "` + strings.Repeat("x", int(left)+2*bodyStep) + `"}`
	require.Equal(t, http.StatusServiceUnavailable, s.ask("POST", "/tasks", large).status)
	s.is(201, "POST", "/tasks", `{"type": "x"}`)
}

// TestSlowBodies: a client that sends nothing more does not hold a transaction, nor the API.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	s := serve(t, "", false)
	c, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "POST /api/v1/batches?type=x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: 100\r\n\r\n{}\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { // it has come so far: requests have the place of the long ones only after that
		free := s.api.bounds.requests.TryAcquire(mostRequests)
		if free {
			s.api.bounds.requests.Release(mostRequests)
		}
		return !free
	}, 10*time.Second, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		second, _ := s.send("GET /api/v1/agents HTTP/1.1\r\nHost: localhost\r\n\r\n")
		return second.StatusCode == http.StatusOK
	}, 10*time.Second, 50*time.Millisecond)
	second, _ := s.send("POST /api/v1/batches?type=x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: 2\r\n\r\n{}")
	require.Equal(t, 503, second.StatusCode, "one at a time")
	s.enqueue(store.EnqueueRequest{Type: "x"}) // others write meanwhile
	require.NoError(t, c.SetReadDeadline(time.Now().Add(3*lineTimeout)))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, 400, resp.StatusCode)
	after, body := s.send("POST /api/v1/batches?type=x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: 2\r\n\r\n{}")
	require.Equal(t, 201, after.StatusCode, body)
	require.Contains(t, body, `"tasks":1`)
}
