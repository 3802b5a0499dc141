package web

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates are parsed once: a mistake in one is found by every test. Pages of those who may only read have a set of their own, in which
// mayChange is false: what changes something stands below {{if mayChange}}.
var templates = map[bool]*template.Template{ //nolint:gochecknoglobals // a constant, by readOnly
	false: parseTemplates(true), true: parseTemplates(false),
}

func parseTemplates(mayChange bool) *template.Template {
	own := template.FuncMap{"mayChange": func() bool { return mayChange }}
	return template.Must(template.New("").Funcs(functions()).Funcs(own).ParseFS(templateFiles, "templates/*.html"))
}

// frame is what surrounds the main part of a page.
type frame struct {
	*view
	Main    template.HTML // it was rendered by a template
	Nav     []entry
	Theme   string // auto, light or dark
	By      string // the name that the browser keeps
	Path    string // of the page, with its query
	Agent   string
	Where   string
	Version string
	CSS, JS string
	SignIn  bool // the page is to sign in

	ReadOnly bool // nothing can be changed
}

// entry is a place of the navigation.
type entry struct{ Name, Path, Place string }

// nav is the navigation.
func nav() []entry {
	return []entry{
		{"Overview", "/", "overview"}, {"Tasks", "/tasks", "tasks"}, {"Batches", "/batches", "batches"}, {"Chunks", "/chunks", "chunks"},
		{"Schedules", "/schedules", "schedules"}, {"Flow", "/flow", "flow"}, {"Failures", "/failures", "failures"},
		{"Types", "/types", "types"}, {"Agents", "/agents", "agents"}, {"Audit", "/audit", "audit"}, {"Doctor", "/doctor", "doctor"},
	}
}

// page answers with a page, or with its main part alone. single says that it is one page, but for its query, and not one of each task or the like.
func (d *Dashboard) page(p page, single bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			d.fail(w, r, &mistaken{"a page takes no body"})
			return
		}
		readOnly := api.ReadOnly(r.Context())
		read := func() (*view, []byte, error) {
			// Others may wait for the same: that this client goes away is no reason to stop.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), requestTimeout)
			defer cancel()
			v, err := p(&request{r, ctx, time.Now()})
			if err != nil {
				return nil, nil, err
			}
			main, err := rendered(v, readOnly)
			return v, main, err
		}
		v, main, err := d.shared.read(r.Context(), address(r, readOnly), !single || r.URL.RawQuery != "", read)
		if err != nil {
			d.fail(w, r, err)
			return
		}
		d.write(w, r, http.StatusOK, v, main)
	}
}

// rendered is the main part of a page.
func rendered(v *view, readOnly bool) ([]byte, error) {
	var b bytes.Buffer
	if err := templates[readOnly].ExecuteTemplate(&b, v.Name, v.Data); err != nil {
		return nil, err
	}
	return bytes.ToValidUTF8(b.Bytes(), []byte("\ufffd")), nil
}

// write answers with a main part, in its frame or alone.
func (d *Dashboard) write(w http.ResponseWriter, r *http.Request, status int, v *view, main []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Vary", "X-Leasehold-Part, Cookie")
	if isPart(r) {
		w.WriteHeader(status)
		_, _ = w.Write(main) // an error here is the client's having gone away
		return
	}
	f := frame{
		view: v, Main: template.HTML(main), Nav: nav(), Theme: theme(r), By: cookie(r, nameCookie), Path: withoutSaid(r.URL), //nolint:gosec // see Main
		Agent: d.Agent, Where: d.Where, Version: d.Version, CSS: assetPath("style.css"), JS: assetPath("live.js"),
		SignIn: v.Name == "signin", ReadOnly: api.ReadOnly(r.Context()),
	}
	var b bytes.Buffer
	if err := templates[f.ReadOnly].ExecuteTemplate(&b, "layout", f); err != nil {
		d.Log.Warn("a page of the dashboard cannot be rendered", "path", r.URL.Path, "err", err)
		api.Problem(w, http.StatusInternalServerError, "the page cannot be rendered: the agent's log has the reason")
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// withoutSaid is a page's address without what became of a change that led there.
func withoutSaid(u *url.URL) string {
	query := u.Query()
	query.Del("said")
	again := url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: query.Encode()}
	return again.RequestURI()
}

// failure is a page that says what went wrong.
type failure struct {
	Status int
	Title  string
	Text   string
}

// fail answers with what went wrong.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := failureOf(err)
	if f.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter(err))
		if r.Context().Err() == nil {
			d.Log.Debug("a page of the dashboard failed", "path", r.URL.Path, "err", err)
		}
	}
	v := &view{Title: f.Title, Name: "failure", Data: f}
	main, err := rendered(v, true)
	if err != nil {
		api.Problem(w, f.Status, f.Text)
		return
	}
	d.write(w, r, f.Status, v, main)
}

// retryAfter is when to try again, in seconds.
func retryAfter(err error) string {
	if spent, ok := errors.AsType[*spentError](err); ok {
		return strconv.Itoa(spent.seconds())
	}
	return "1"
}

func failureOf(err error) failure {
	gone := []error{
		store.ErrNoTask, store.ErrNoBatch, store.ErrNoAgent, store.ErrNoSchedule, store.ErrNoSequence, store.ErrNoChunkPlan, store.ErrNoBulk,
		ops.ErrNoDeclaration,
	}
	if m, ok := errors.AsType[*missing](err); ok {
		return failure{http.StatusNotFound, "Not found", m.text}
	}
	for _, g := range gone {
		if errors.Is(err, g) {
			return failure{http.StatusNotFound, "Not found", err.Error()}
		}
	}
	if m, ok := errors.AsType[*mistaken](err); ok {
		return failure{http.StatusBadRequest, "This cannot be asked for", m.text}
	}
	if input, ok := errors.AsType[*store.InputError](err); ok {
		return failure{http.StatusBadRequest, "This cannot be asked for", input.Text}
	}
	if refused, ok := errors.AsType[*store.RefusedError](err); ok {
		return failure{http.StatusConflict, "Refused", refused.Text}
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		return failure{http.StatusForbidden, "Read only", r.text}
	}
	switch {
	case errors.Is(err, errBusy), errors.As(err, new(*spentError)):
		return failure{http.StatusServiceUnavailable, "Busy", err.Error()}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return failure{http.StatusServiceUnavailable, "Too slow", "the store has not answered within " + requestTimeout.String()}
	}
	return failure{http.StatusServiceUnavailable, "The store cannot be used", err.Error()}
}

// Cookies of the browser. None of them says who may do what.
const (
	themeCookie = "leasehold_theme"
	nameCookie  = "leasehold_name"
	mostName    = 100 // bytes
)

// cookie reads a cookie; "" where there is none, or one that this package does not write.
func cookie(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil || len(c.Value) > mostName*3 {
		return ""
	}
	text, err := unescape(c.Value)
	if err != nil || len(text) > mostName || !store.Storable(text) {
		return ""
	}
	return strings.TrimSpace(ops.OneLine(text, mostName))
}

func theme(r *http.Request) string {
	if t := cookie(r, themeCookie); t == "light" || t == "dark" {
		return t
	}
	return "auto"
}
