package api

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// guard decides who may ask what. A web page in a browser on this host can send requests to a loopback port, its own
// name bound to 127.0.0.1 or not; what it cannot do is leave out Origin and choose Host. So on loopback a foreign one
// of these is refused, and so is whatever a proxy forwards from elsewhere. Off loopback the tokens decide. On either, it
// refuses the changes of those who may only read: what it lets through may do all that it asks for.
type guard struct {
	next    http.Handler
	local   bool
	unix    bool
	admits  atomic.Pointer[admitted]
	signIns signIns
	refuse  func(w http.ResponseWriter, r *http.Request, reason string) // tells a browser; nil: as all others are told
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := g.admits.Load()
	if g.local {
		if reason := g.foreign(r, a); reason != "" {
			Problem(w, http.StatusForbidden, reason)
			return
		}
	}
	if open(r.URL.Path) {
		g.next.ServeHTTP(w, r)
		return
	}
	by := a.full
	if !g.local {
		by = a.by(r, time.Now())
	}
	switch {
	case by != nil:
		reason := a.onlyReads(by, r.URL.Path)
		if reason != "" && !looks(r) {
			g.forbid(w, r, reason)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), admissionKey{}, admission{by.ctx, reason != ""}))
	case !a.any() || !toSignIn(r.URL.Path):
		unknown(w, r, a)
		return
	}
	g.next.ServeHTTP(w, r)
}

// unknown answers a request without a token.
func unknown(w http.ResponseWriter, r *http.Request, a *admitted) {
	if a.any() && visits(r) {
		ask(w, r)
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="leasehold"`)
	Problem(w, http.StatusUnauthorized, a.remedy())
}

// forbid refuses a change.
func (g *guard) forbid(w http.ResponseWriter, r *http.Request, reason string) {
	if g.refuse == nil || strings.HasPrefix(r.URL.Path, "/api/") || !wantsPage(r) {
		Problem(w, http.StatusForbidden, reason)
		return
	}
	g.refuse(w, r, reason)
}

// foreign says why a request on a loopback listener does not come from this host; "" if it does.
func (g *guard) foreign(r *http.Request, a *admitted) string {
	for name := range r.Header {
		if name == "Forwarded" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return "forwarded requests are refused on a loopback listener (" + name + "): " +
				"set `listen` to another address, and `token`, in the agent block"
		}
	}
	if !g.unix && !localHost(r.Host) && (a.advertised == "" || !strings.EqualFold(r.Host, a.advertised)) {
		return "this listener accepts only localhost and loopback addresses, not the host " + Quote(r.Host) +
			": if it is reached by that name, set `advertise` in the agent block to a URL with that host"
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host != r.Host {
			return "requests from other origins are refused: " + Quote(origin)
		}
	}
	return ""
}

// localHost reports whether a Host header names this host in a way that no foreign name server can choose.
func localHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// open reports whether a path is answered without a token.
func open(path string) bool {
	return path == "/metrics" || strings.HasPrefix(path, "/-/") || strings.HasPrefix(path, "/ping/")
}

// toSignIn reports whether a path is needed to give the token: the form, and what it loads.
func toSignIn(path string) bool { return path == SignInPath || strings.HasPrefix(path, "/assets/") }

// mayRead reports whether a request that is answered without a token may be shown what only readers may see.
func (g *guard) mayRead(r *http.Request) bool { return g.local || g.admits.Load().bearer(r) != nil }
