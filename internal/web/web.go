// Package web is the dashboard of an agent: pages that are rendered here, work without JavaScript, and are kept up to date by a small script
// where there is one. It changes tasks through package ops, as commands and the HTTP API do. Who may use it is decided before it: see package api.
package web

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/ops"
)

// Options are what a Dashboard needs.
type Options struct {
	Store ops.Everything
	Bulk  ops.BulkWork // of the store
	Log   *slog.Logger
	// Checkups are of the store, and shared with all who ask within this agent.
	Checkups *ops.Checkups
	// Histories are those of the store, and shared in the same way.
	Histories *ops.Histories
	Agent     string // name of this agent, for the foot of each page
	// Where names the store without its password.
	Where string
	// Version is the binary's.
	Version string
}

// Dashboard answers for pages, and for what they load.
type Dashboard struct {
	Options
	mux    *http.ServeMux
	shared *shared
	cross  *http.CrossOriginProtection
	paces  paces
}

// requestTimeout bounds what is done for one page. It is less than the listener's read timeout, at which net/http ends the context of a
// request.
const requestTimeout = 12 * time.Second

// New makes a dashboard.
func New(o Options) *Dashboard {
	d := &Dashboard{Options: o, mux: http.NewServeMux(), shared: newShared(), cross: http.NewCrossOriginProtection()}
	for pattern, p := range d.pages() {
		d.mux.Handle("GET "+pattern, d.page(p, !strings.Contains(pattern, "/{") || pattern == "/{$}"))
	}
	for pattern, c := range d.changes() {
		d.mux.Handle("POST "+pattern, d.cross.Handler(d.change(c)))
	}
	d.mux.HandleFunc("GET "+assetPrefix+"{hash}/{name}", serveAsset)
	d.mux.HandleFunc("GET "+api.SignInPath, d.signIn)
	d.mux.HandleFunc("GET /tasks/go", d.goTo)
	d.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
			w.Header().Set("Allow", "GET, HEAD, POST")
			api.Problem(w, http.StatusMethodNotAllowed, "use GET, or the form of a page")
			return
		}
		d.fail(w, r, &missing{"nothing is served at " + api.Quote(r.URL.Path)})
	})
	return d
}

// pages are what can be looked at.
func (d *Dashboard) pages() map[string]page {
	return map[string]page{
		"/{$}":              d.overview,
		"/tasks":            d.taskList,
		"/tasks/{id}":       d.taskPage,
		"/tasks/change":     d.bulkPreview,
		"/changes/{id}":     d.bulkPage,
		"/batches":          d.batchList,
		"/batches/{id}":     d.batchPage,
		"/chunks":           d.chunkList,
		"/chunks/{name}":    d.chunkPage,
		"/schedules":        d.scheduleList,
		"/schedules/{name}": d.schedulePage,
		"/flow":             d.flow,
		"/agents":           d.agentList,
		"/types":            d.typeList,
		"/types/{name}":     d.typePage,
		"/failures":         d.failures,
		"/doctor":           d.doctor,
		"/audit":            d.audit,
	}
}

// changes are what can be done.
func (d *Dashboard) changes() map[string]change {
	return map[string]change{
		"/tasks/{id}/{verb}":              d.changeTask,
		"/changes":                        d.startBulk,
		"/changes/{id}/stop":              d.stopBulk,
		"/batches/{id}/{verb}":            d.changeBatch,
		"/chunks/{name}/{verb}":           d.changeChunks,
		"/schedules/{name}/{verb}":        d.changeSchedule,
		"/sequences/{type}/{name}/{verb}": d.changeSequence,
		"/agents/{name}/{verb}":           d.orderAgent,
		"/types/{name}/{verb}":            d.pauseType,
		api.SettingsPath:                  d.settings,
	}
}

// policy lets a page load what this package serves, and nothing else: no script and no style stands in a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request from a client that may do what it asks for: see api.ReadOnly.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if foreign(r) {
		api.Problem(w, http.StatusForbidden, "requests from pages of other sites are refused, but for links to a page")
		return
	}
	d.mux.ServeHTTP(w, r)
}

// Refuse answers a change of a client that may only read with a page that gives the reason.
func (d *Dashboard) Refuse(w http.ResponseWriter, r *http.Request, reason string) {
	protect(w.Header())
	d.fail(w, r, &refusal{reason})
}

// protect says what a browser may do with an answer.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// foreign reports whether a page of another site has a browser load something of this one. It could read nothing, and keep the agent
// busy. Links from other sites are followed.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if site == "" || site == "same-origin" || site == "none" {
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" || r.Method != http.MethodGet
}

// request is one look at a page, or one change.
type request struct {
	*http.Request
	ctx context.Context //nolint:containedctx // it lasts as long as the request
	now time.Time
}

// by is who asks for a change, as the audit names it: the name that the browser keeps, which nobody has checked.
func (r *request) by() string {
	if name := cookie(r.Request, nameCookie); name != "" {
		return name + " (dashboard)"
	}
	return "dashboard"
}

// page reads something to look at. It is the same for all who ask for the same address and may do the same.
type page func(*request) (*view, error)

// view is what a page shows.
type view struct {
	Title string
	Place string // the entry of the navigation that it belongs to
	Name  string // of its template
	Data  any
	// Live is the address of the events after which the page is read again; "": it does not change.
	Live string
}

// events tell pages that something has changed.
const events = "/api/v1/events"

// missing is a page that does not exist.
type missing struct{ text string }

func (m *missing) Error() string { return m.text }

// mistaken is a mistake in a request.
type mistaken struct{ text string }

func (m *mistaken) Error() string { return m.text }

// refusal is a change of a client that may only read.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// isPart reports whether only the main part of a page is asked for, to replace it.
func isPart(r *http.Request) bool { return r.Header.Get("X-Leasehold-Part") == "main" }
