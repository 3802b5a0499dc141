// Package api is the agent's listener: health, metrics, pings, and who may ask. The HTTP API is package v1 below it, and the dashboard package web
// beside it.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options are what a Server needs.
type Options struct {
	Probes   Probes
	Gatherer prometheus.Gatherer
	Log      *slog.Logger
	Access   Access // see Server.Admit
	// Pings answers everything under /ping/, also to those without the token: each ping URL is a secret of its own. nil:
	// there is nothing.
	Pings http.Handler
	// Reload answers a POST to ReloadPath: on a loopback listener to all of this host, else with the token. nil: there is nothing.
	Reload http.Handler
	// V1 answers everything under /api/v1/ to those who may: it gets no change of those who may only read. nil: there is nothing.
	V1 http.Handler
	// Web answers everything else, to the same. nil: there is nothing.
	Web http.Handler
	// Refuse answers a browser that may read but not change with a page that gives the reason, and status 403. nil: it gets a problem document.
	Refuse func(w http.ResponseWriter, r *http.Request, reason string)
	// Connections is how many may be open at once; 0: DefaultConnections.
	Connections int
}

// Server answers on the agent's listener.
type Server struct {
	listener *listener
	gate     *guard
	server   *http.Server
	stop     context.CancelFunc // ends what answers have under way
}

// ReloadPath is where an agent is asked to read its configuration again.
const ReloadPath = "/api/reload"

// Bounds of one connection and one request.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10 // bytes
	gatherTimeout = 10 * time.Second
)

// New makes a server for l, which it owns from now on.
func New(l net.Listener, o Options) *Server {
	ctx, stop := context.WithCancel(context.Background())
	ready := &readiness{probes: &o.Probes, ctx: ctx}
	mux := http.NewServeMux()
	gate := &guard{
		next: mux, local: local(l), unix: l.Addr().Network() == "unix", refuse: o.Refuse,
	}
	mux.Handle("/-/healthy", readOnly(probe(o.Probes.healthy, gate.mayRead)))
	mux.Handle("/-/ready", readOnly(probe(ready.check, gate.mayRead)))
	mux.Handle("/metrics", readOnly(promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		// What can be gathered is shown, even where some of it fails.
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: gatherTimeout,
	})))
	if o.Pings != nil {
		mux.Handle("/ping/", o.Pings)
	}
	if o.Reload != nil {
		mux.Handle(ReloadPath, only(http.MethodPost, o.Reload))
	}
	if o.V1 != nil {
		mux.Handle("/api/v1/", o.V1)
	}
	nothing := func(w http.ResponseWriter, r *http.Request) {
		Problem(w, http.StatusNotFound, "nothing is served at "+Quote(r.URL.Path))
	}
	for _, below := range []string{"/-/", "/api/"} {
		mux.HandleFunc(below, nothing)
	}
	if o.Web == nil {
		o.Web = http.HandlerFunc(nothing)
	}
	mux.Handle("/", o.Web)
	mux.Handle("POST "+SignInPath, http.NewCrossOriginProtection().Handler(http.HandlerFunc(gate.signIn)))
	s := &Server{
		listener: &listener{l, newConnections(o.Connections, o.Log)}, gate: gate, stop: stop,
		server: &http.Server{
			Handler:           booked(gate),
			ConnContext:       withConnection,
			ConnState:         connState,
			ReadHeaderTimeout: headerTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeader,
			ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		},
	}
	gate.admit(o.Access)
	s.server.RegisterOnShutdown(s.listener.book.closeSilent) // the listener is closed by then, so no further one is admitted
	s.server.RegisterOnShutdown(gate.close)
	return s
}

// Admit replaces Options.Access, at any time, by one caller at a time. What streams or waits with a token that is another one now ends: its clients
// have to ask again.
func (s *Server) Admit(to Access) { s.gate.admit(to) }

// Keep replaces Options.Connections, at any time. What is open beyond that stays until it ends or makes room for another.
func (s *Server) Keep(connections int) { s.listener.book.bound(connections) }

// host is the host and port of an address, as a request's Host names them; "" for none.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// Serve answers until Shutdown; it returns nil then.
func (s *Server) Serve() error {
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", Address(s.listener), err)
	}
	return nil
}

// Shutdown stops listening and waits for the answers under way until ctx ends; what is left then is cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.stop()
	if err := s.server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("shut down the listener: %w", err), s.server.Close())
	}
	return nil
}

// readOnly refuses everything but GET and HEAD.
func readOnly(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			Problem(w, http.StatusMethodNotAllowed, "use GET")
			return
		}
		next.ServeHTTP(w, r)
	}
}

// only refuses every other method.
func only(method string, next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			Problem(w, http.StatusMethodNotAllowed, "use "+method)
			return
		}
		next.ServeHTTP(w, r)
	}
}
