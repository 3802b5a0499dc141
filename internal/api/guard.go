package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
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
// of these is refused, and so is whatever a proxy forwards from elsewhere. Off loopback the token decides.
type guard struct {
	next    http.Handler
	local   bool
	unix    bool
	admits  atomic.Pointer[admitted]
	signIns signIns
}

// admitted is what a configuration says of who may ask.
type admitted struct {
	token string
	// advertised is the host, with its port, by which the operator says that this listener is reached; "": none.
	advertised string

	ctx context.Context    //nolint:containedctx // it lasts as long as the token, and the listener
	end context.CancelFunc // ends it
}

// admission is the key of a request's admission in its context.
type admission struct{}

// Admission returns what ends when those who may use the listener are others than those who could send a request with this context: the
// token has changed, or the listener shuts down. An answer that lasts ends with it.
func Admission(ctx context.Context) context.Context {
	if a, ok := ctx.Value(admission{}).(context.Context); ok {
		return a
	}
	return context.Background() // it was not sent to a listener
}

// admit replaces what a configuration says of who may ask. With another token, what was admitted before has ended.
func (g *guard) admit(token, advertised string) {
	next, before := &admitted{token: token, advertised: advertised}, g.admits.Load()
	if before != nil && before.token == token {
		next.ctx, next.end = before.ctx, before.end
		g.admits.Store(next)
		return
	}
	next.ctx, next.end = context.WithCancel(context.Background())
	g.admits.Store(next)
	if before != nil {
		before.end()
	}
}

// close ends what was admitted.
func (g *guard) close() { g.admits.Load().end() }

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := g.admits.Load()
	if g.local {
		if reason := g.foreign(r, a); reason != "" {
			Problem(w, http.StatusForbidden, reason)
			return
		}
	} else if !open(r.URL.Path) && (a.token == "" || !toSignIn(r.URL.Path)) && !a.authorizes(r) && (!forBrowsers(r) || !a.signedIn(r, time.Now())) {
		if a.token != "" && visits(r) {
			ask(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="leasehold"`)
		Problem(w, http.StatusUnauthorized, a.remedy())
		return
	}
	if !open(r.URL.Path) {
		r = r.WithContext(context.WithValue(r.Context(), admission{}, a.ctx))
	}
	g.next.ServeHTTP(w, r)
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
func (g *guard) mayRead(r *http.Request) bool { return g.local || g.admits.Load().authorizes(r) }

// authorizes reports whether a request has the token.
func (a *admitted) authorizes(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && a.is(given)
}

// is reports whether that is the token.
func (a *admitted) is(given string) bool {
	if a.token == "" {
		return false
	}
	// Hashes are of one length, so the time reveals nothing of the token's.
	x, y := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(a.token))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func (a *admitted) remedy() string {
	if a.token == "" {
		return "off loopback this requires a token, but none is configured: set `token` in the agent block"
	}
	return "off loopback this requires the token: send it as `Authorization: Bearer …`"
}
