package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what a server said.
type answer struct {
	status int
	header http.Header
	body   string
}

// serve starts a server on a listener that looks like addr and returns a function that asks it.
func serve(t *testing.T, l net.Listener, o Options) func(method, path string, header ...string) answer {
	t.Helper()
	if o.Gatherer == nil {
		o.Gatherer = prometheus.NewRegistry()
	}
	o.Log, o.Web = slog.New(slog.DiscardHandler), http.HandlerFunc(front)
	s := New(l, o)
	if e, ok := l.(everywhere); ok {
		l = e.Listener
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, l.Addr().Network(), l.Addr().String())
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, s.Shutdown(context.Background()))
		require.NoError(t, <-served)
	})
	return func(method, path string, header ...string) answer {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:7070"+path, nil)
		require.NoError(t, err)
		for i := 0; i < len(header); i += 2 {
			if header[i] == "Host" {
				r.Host = header[i+1]
				continue
			}
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := (&http.Client{Transport: transport}).Do(r)
		require.NoError(t, err)
		defer func() { require.NoError(t, resp.Body.Close()) }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return answer{resp.StatusCode, resp.Header, string(body)}
	}
}

// front stands for the dashboard.
func front(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		Problem(w, http.StatusNotFound, "there is no page "+r.URL.Path)
		return
	}
	_, _ = io.WriteString(w, "the dashboard\n")
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := Listen(t.Context(), addr)
	require.NoError(t, err)
	return l
}

// everywhere makes a loopback listener look like one on every interface, so that tests open no port to the world.
type everywhere struct{ net.Listener }

func (everywhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 7070} }

func TestEndpoints(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "leasehold_claims_total"}))
	ask := serve(t, listen(t, "127.0.0.1:0"), Options{Gatherer: registry})
	for _, c := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"GET", "/-/healthy", 200, "ok\n"},
		{"GET", "/-/ready", 200, "ok\n"},
		{"GET", "/metrics", 200, "leasehold_claims_total 0"},
		{"GET", "/", 200, "the dashboard"},
		{"HEAD", "/-/healthy", 200, ""},
		{"POST", "/-/healthy", 405, "use GET"},
		{"DELETE", "/metrics", 405, "use GET"},
		{"GET", "/api/v1/tasks", 404, "nothing is served"},
		{"GET", "/-/nothing", 404, "nothing is served"},
		{"GET", "/favicon.ico", 404, "/favicon.ico"},
	} {
		got := ask(c.method, c.path)
		require.Equal(t, c.status, got.status, "%s %s", c.method, c.path)
		require.Contains(t, got.body, c.contains, "%s %s", c.method, c.path)
		if c.status >= 400 {
			require.Equal(t, "application/problem+json", got.header.Get("Content-Type"))
			var p struct{ Status int }
			require.NoError(t, json.Unmarshal([]byte(got.body), &p))
			require.Equal(t, c.status, p.Status)
		}
	}
}

func TestLoopbackRefusesStrangers(t *testing.T) {
	ask := serve(t, listen(t, "127.0.0.1:0"), Options{})
	for _, c := range []struct {
		name   string
		header []string
		status int
	}{
		{"localhost", []string{"Host", "localhost:9999"}, 200},
		{"no port", []string{"Host", "LocalHost"}, 200},
		{"another loopback address", []string{"Host", "127.9.9.9:7070"}, 200},
		{"IPv6", []string{"Host", "[::1]:7070"}, 200},
		{"IPv6, no port", []string{"Host", "[::1]"}, 200},
		{"a name bound to loopback", []string{"Host", "evil.example:7070"}, 403},
		{"a name that looks local", []string{"Host", "localhost.evil.example"}, 403},
		{"a name that looks like an address", []string{"Host", "127.0.0.1.evil.example"}, 403},
		{"another address", []string{"Host", "10.0.0.1:7070"}, 403},
		{"its own origin", []string{"Origin", "http://127.0.0.1:7070"}, 200},
		{"another origin", []string{"Origin", "http://evil.example"}, 403},
		{"another port's origin", []string{"Origin", "http://127.0.0.1:3000"}, 403},
		{"no origin to speak of", []string{"Origin", "null"}, 403},
		{"an origin that is none", []string{"Origin", "http://%zz"}, 403},
		{"forwarded", []string{"Forwarded", "for=1.2.3.4"}, 403},
		{"forwarded, as proxies do", []string{"X-Forwarded-For", "1.2.3.4"}, 403},
		{"forwarded, any of them", []string{"x-forwarded-anything", ""}, 403},
		{"forwarded by nginx", []string{"X-Real-IP", "1.2.3.4"}, 403},
	} {
		for _, path := range []string{"/-/healthy", "/metrics", "/"} {
			require.Equal(t, c.status, ask("GET", path, c.header...).status, "%s: %s", c.name, path)
		}
	}
}

func TestOffLoopbackNeedsTheToken(t *testing.T) {
	for _, c := range []struct {
		name, token, given string
		status             int
	}{
		{"none given", "secret", "", 401},
		{"wrong", "secret", "Bearer Secret", 401},
		{"no scheme", "secret", "secret", 401},
		{"right", "secret", "Bearer secret", 200},
		{"none configured", "", "", 401},
		{"none configured, an empty one given", "", "Bearer ", 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask := serve(t, everywhere{listen(t, "127.0.0.1:0")}, Options{Access: Access{Token: c.token}})
			header := []string{"Host", "agent.example", "X-Forwarded-For", "1.2.3.4"}
			if c.given != "" {
				header = append(header, "Authorization", c.given)
			}
			require.Equal(t, c.status, ask("GET", "/", header...).status)
			require.Equal(t, 200, ask("GET", "/-/healthy", header...).status)
			require.Equal(t, 200, ask("GET", "/-/ready", header...).status)
			require.Equal(t, 200, ask("GET", "/metrics", header...).status)
		})
	}
}

func TestHealth(t *testing.T) {
	var stuck atomic.Bool
	ask := serve(t, listen(t, "127.0.0.1:0"), Options{Probes: Probes{
		Healthy: func() error {
			if stuck.Load() {
				return errors.New("the loop has not turned for 30s")
			}
			return nil
		},
		Store: func(context.Context) error { return errors.New("out of reach") },
	}})
	require.Equal(t, 200, ask("GET", "/-/healthy").status, "the store's being away is no reason to restart the agent")
	stuck.Store(true)
	got := ask("GET", "/-/healthy")
	require.Equal(t, 503, got.status)
	require.Equal(t, "the loop has not turned for 30s\n", got.body)
}

func TestReadiness(t *testing.T) {
	var draining atomic.Bool
	var asked atomic.Int32
	ask := serve(t, listen(t, "127.0.0.1:0"), Options{Probes: Probes{
		Draining: draining.Load,
		Store: func(ctx context.Context) error {
			_, bounded := ctx.Deadline()
			if asked.Add(1); !bounded {
				return errors.New("no bound")
			}
			return errors.New("out of reach")
		},
	}})
	for range 20 {
		got := ask("GET", "/-/ready")
		require.Equal(t, 503, got.status)
		require.Equal(t, "out of reach\n", got.body)
	}
	require.LessOrEqual(t, asked.Load(), int32(10), "the store is spared")
	draining.Store(true)
	require.Equal(t, "the agent is draining\n", ask("GET", "/-/ready").body)
	require.Equal(t, 200, ask("GET", "/-/healthy").status)
}

// An agent is ready as soon as its session is present, whatever it answered a moment before.
func TestReadyOncePresent(t *testing.T) {
	var present, broken atomic.Bool
	ask := serve(t, listen(t, "127.0.0.1:0"), Options{Probes: Probes{
		Present: present.Load,
		Store: func(context.Context) error {
			if broken.Load() {
				return errors.New("out of reach")
			}
			return nil
		},
	}})
	broken.Store(true)
	require.Equal(t, "out of reach\n", ask("GET", "/-/ready").body)
	broken.Store(false)
	present.Store(true)
	require.Equal(t, 200, ask("GET", "/-/ready").status, "the failure is from before")
	present.Store(false)
	got := ask("GET", "/-/ready")
	require.Equal(t, 503, got.status)
	require.Equal(t, "the agent's session is not present in the store\n", got.body)
	present.Store(true)
	require.Equal(t, 200, ask("GET", "/-/ready").status)
}

// Off loopback any client may ask whether the agent is ready, but only one with the token gets an error that names the store
// and its user.
func TestReadinessGivesStrangersNoReason(t *testing.T) {
	const reason = "failed to connect to `user=app database=shop`: 10.0.0.7:5432"
	o := Options{Access: Access{Token: "geheim"}, Probes: Probes{Store: func(context.Context) error { return errors.New(reason) }}}
	ask := serve(t, everywhere{listen(t, "127.0.0.1:0")}, o)
	const public = "the store cannot be used: the agent's log has the reason\n"
	for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}} {
		got := ask("GET", "/-/ready", header...)
		require.Equal(t, 503, got.status)
		require.Equal(t, public, got.body)
	}
	require.Equal(t, reason+"\n", ask("GET", "/-/ready", "Authorization", "Bearer geheim").body)

	o.Access = Access{}
	ask = serve(t, everywhere{listen(t, "127.0.0.1:0")}, o)
	require.Equal(t, public, ask("GET", "/-/ready", "Authorization", "Bearer ").body)
}

func TestShutdownIsBounded(t *testing.T) {
	entered := make(chan struct{})
	l := listen(t, "127.0.0.1:0")
	s := New(l, Options{
		Gatherer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
		Probes: Probes{Store: func(ctx context.Context) error {
			close(entered)
			<-ctx.Done() // a store that hangs
			return ctx.Err()
		}},
	})
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	_, err = io.WriteString(c, "GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.Canceled)
	require.NoError(t, <-served)
}

func TestAdvertisedHostIsNotForeign(t *testing.T) {
	ask := serve(t, listen(t, "127.0.0.1:0"), Options{Access: Access{Advertise: "http://tasks.example:7070"}})
	require.Equal(t, 200, ask("GET", "/", "Host", "Tasks.example:7070").status)
	require.Equal(t, 403, ask("GET", "/", "Host", "tasks.example").status)
	require.Equal(t, 403, ask("GET", "/", "Host", "evil.example").status)
	require.Equal(t, 403, ask("GET", "/", "Host", "tasks.example:7070", "Origin", "http://evil.example").status)
}

func TestUnixSocketNeedsNoHost(t *testing.T) {
	l := listen(t, "unix://"+filepath.Join(t.TempDir(), "s"))
	ask := serve(t, l, Options{})
	require.Equal(t, 200, ask("GET", "/", "Host", "whatever").status)
	require.Equal(t, 403, ask("GET", "/", "X-Forwarded-For", "1.2.3.4").status)
	require.True(t, strings.HasPrefix(Address(l), "unix:///"))
}
