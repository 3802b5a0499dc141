// Package v1 is the HTTP API of an agent, /api/v1: what the commands can do with a store, through package ops, in JSON with the same
// names as their `-o json`. Who may use it is decided before it: see package api.
package v1

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Store is what the API needs of the store.
type Store interface {
	ops.Everything
	ops.Glances
}

// Options are what an API needs.
type Options struct {
	Store Store
	Bulk  ops.BulkWork // of the store
	Log   *slog.Logger
	// Checkups are of the store, and shared with all who ask within this agent.
	Checkups *ops.Checkups
	// Histories are those of the store, and shared in the same way.
	Histories *ops.Histories
	// Healthy fails where this agent's loop is stuck; nil: it is not.
	Healthy func() error
	// Configuration returns the blocks of the configuration that is in force in this agent, and the type of it that claims rows of a type ("": none).
	Configuration func() (blocks []store.Block, claims func(typ string) string)
	// CountChunks counts what is left of the table of a plan, with the source that this agent's configuration has. With ctx's error it returns what it
	// has counted. A *store.RefusedError says that this agent cannot read the table.
	CountChunks func(ctx context.Context, p *ops.ChunkProof) (ops.ChunkLeft, error)
	// Trace returns the trace context of a task without one of its own; nil: it is not shown.
	Trace func(ctx context.Context, id task.ID) (string, error)
}

// Prefix is where it is served.
const Prefix = "/api/v1"

// API answers under Prefix.
type API struct {
	Options
	mux     *http.ServeMux
	bounds  bounds
	health  health
	news    shared[*news]
	watched watched
	glances shared[glances]
}

// New makes an API.
func New(o Options) *API {
	a := &API{
		Options: o, mux: http.NewServeMux(), bounds: newBounds(), news: newShared[*news](newsEvery), glances: newShared[glances](glanceEvery),
	}
	methods := map[string]map[string]handler{}
	for _, r := range a.routes() {
		method, path, _ := strings.Cut(r.pattern, " ")
		if methods[path] == nil {
			methods[path] = map[string]handler{}
		}
		methods[path][method] = r.handle
	}
	for path, m := range methods {
		a.mux.Handle(Prefix+path, a.dispatch(m))
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		api.Problem(w, http.StatusNotFound, "nothing is served at "+api.Quote(r.URL.Path)+": see "+Prefix+"/openapi.json")
	})
	return a
}

// ServeHTTP answers a request from a client that may read and change.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A page of another site can have a browser send requests that have no Origin: those of images and links. They could read nothing,
	// and keep the agent busy.
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		api.Problem(w, http.StatusForbidden, "requests from pages of other sites are refused (Sec-Fetch-Site: "+api.Quote(site)+")")
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	a.mux.ServeHTTP(w, r)
}

// handler answers one request, with what is written as JSON or an error, unless it has answered by itself (answered).
type handler func(c *call) (any, error)

// route is a method and a path below Prefix, and what answers there.
type route struct {
	pattern string
	handle  handler
}

// dispatch answers the methods of a path.
func (a *API) dispatch(methods map[string]handler) http.HandlerFunc {
	var allowed []string
	for m := range methods {
		allowed = append(allowed, m)
	}
	if methods[http.MethodGet] != nil {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	allow := strings.Join(allowed, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet // net/http leaves out the body
		}
		handle := methods[method]
		if handle == nil {
			w.Header().Set("Allow", allow)
			api.Problem(w, http.StatusMethodNotAllowed, "use "+allow)
			return
		}
		a.answer(w, r, handle)
	}
}

// requestTimeout bounds what is done for a request that does not wait or stream. It is less than the listener's read timeout, at which
// net/http ends the context of a request.
const requestTimeout = 12 * time.Second

// answer has a handler answer within the bounds of the API.
func (a *API) answer(w http.ResponseWriter, r *http.Request, handle handler) {
	if !a.bounds.enter() {
		busy(w, "too many requests at once")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	c := &call{api: a, w: w, r: r, ctx: ctx, query: newQuery(r), leave: sync.OnceFunc(a.bounds.leave)}
	defer c.leave()
	defer c.release()
	var body any
	err := c.check()
	if err == nil {
		body, err = handle(c)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if body != answered {
		a.write(w, r, c.status, body)
	}
}

func (a *API) routes() []route {
	return slices.Concat(
		[]route{
			{"GET /openapi.json", a.document},
			{"GET /health", a.getHealth},
			{"GET /doctor", a.getDoctor},
			{"GET /history", a.getHistory},
			{"GET /agents", a.listAgents},
			{"GET /regions", a.listRegions},
			{"GET /plan", a.getPlan},
			{"GET /orphans", a.listOrphans},
			{"GET /pauses", a.listPauses},
			{"GET /audit", a.listAudit},
			{"GET /flow", a.getFlow},
			{"GET /declarations", a.listDeclarations},
			{"GET /declarations/{kind}/{name}", a.getDeclaration},
			{"GET /events", a.streamEvents},
			{"POST /agents/{agent}/drain", a.orderAgent(store.Drain)},
			{"POST /agents/{agent}/cordon", a.orderAgent(store.Cordon)},
			{"POST /agents/{agent}/uncordon", a.orderAgent(store.Uncordon)},
			{"POST /orphans/{type}/move", a.changeOrphans(true)},
			{"POST /orphans/{type}/cancel", a.changeOrphans(false)},
			{"POST /pauses/{type}/pause", a.pauseType(true)},
			{"POST /pauses/{type}/resume", a.pauseType(false)},
		},
		a.taskRoutes(), a.bulkRoutes(), a.batchRoutes(), a.scheduleRoutes(), a.sequenceRoutes(), a.chunkRoutes(),
	)
}
