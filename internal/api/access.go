package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"
)

// Access is what a configuration says of who may use a listener, and for what. Its zero value is a listener without tokens.
type Access struct {
	Token string // for reading and changing off loopback; "": none
	// ReadToken is for reading off loopback, and for nothing else; "": none. It must differ from Token.
	ReadToken string
	// ReadOnly has no client change anything, on loopback either. Reloads are left alone, so that the configuration can take it back.
	ReadOnly bool
	// Advertise is how the listener is reached where its own address does not say that, as http://host:port; a loopback
	// listener answers to this host too. "": none.
	Advertise string
}

// credential is a token, and what was admitted by it.
type credential struct {
	token string // "": there is none, and nothing is this credential
	reads bool   // it is for reading only

	ctx context.Context    //nolint:containedctx // it lasts as long as the token, and the listener
	end context.CancelFunc // ends it
}

// is reports whether that is the token.
func (c *credential) is(given string) bool {
	if c.token == "" {
		return false
	}
	// Hashes are of one length, so the time reveals nothing of the token's.
	x, y := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(c.token))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// admitted is an Access in force. On loopback its first credential stands for all clients.
type admitted struct {
	full, reader *credential
	readOnly     bool
	// advertised is the host, with its port, by which the operator says that this listener is reached; "": none.
	advertised string
}

// admit replaces what a configuration says of who may ask. What was admitted by a token that is another one now has ended.
func (g *guard) admit(to Access) {
	before := g.admits.Load()
	next := &admitted{readOnly: to.ReadOnly, advertised: host(to.Advertise)}
	var of [2]*credential
	if before != nil {
		of = [2]*credential{before.full, before.reader}
	}
	next.full, next.reader = of[0].follow(to.Token, false), of[1].follow(to.ReadToken, true)
	g.admits.Store(next)
	for i, now := range []*credential{next.full, next.reader} {
		if of[i] != nil && of[i] != now {
			of[i].end()
		}
	}
}

// follow is the credential itself if it has that token, or else a new one.
func (c *credential) follow(token string, reads bool) *credential {
	if c != nil && c.is(token) || c != nil && c.token == "" && token == "" {
		return c
	}
	next := &credential{token: token, reads: reads}
	next.ctx, next.end = context.WithCancel(context.Background())
	return next
}

// close ends what was admitted.
func (g *guard) close() {
	a := g.admits.Load()
	a.full.end()
	a.reader.end()
}

// any reports whether there is a token to give.
func (a *admitted) any() bool { return a.full.token != "" || a.reader.token != "" }

// given is the credential of a token; nil where it is neither's.
func (a *admitted) given(token string) *credential {
	full, reader := a.full.is(token), a.reader.is(token)
	switch {
	case full:
		return a.full
	case reader:
		return a.reader
	}
	return nil
}

// bearer is the credential that a request has in its header; nil: none.
func (a *admitted) bearer(r *http.Request) *credential {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil
	}
	return a.given(token)
}

// by is the credential that a request off loopback has; nil: none. That in the header goes first.
func (a *admitted) by(r *http.Request, now time.Time) *credential {
	if c := a.bearer(r); c != nil || !forBrowsers(r) {
		return c
	}
	for _, c := range []*credential{a.full, a.reader} {
		if c.signedIn(r, now) {
			return c
		}
	}
	return nil
}

// remedy says what a request lacks that has no token.
func (a *admitted) remedy() string {
	if !a.any() {
		return "off loopback this requires a token, but none is configured: set `token` in the agent block"
	}
	return "off loopback this requires the token: send it as `Authorization: Bearer …`"
}

// onlyReads says why a client with a credential may change nothing at a path; "": it may.
func (a *admitted) onlyReads(c *credential, path string) string {
	switch {
	case c.reads && a.full.token == "":
		return "this token is for reading only, and none for changing is configured: set `token` in the agent block"
	case c.reads:
		return "this token is for reading only: to change something, give the `token` of the agent block"
	case a.readOnly && path != ReloadPath:
		return "this agent is read-only: use another one or the commands, or remove `read_only` from its agent block"
	}
	return ""
}

// admission is what a request was admitted by, in its context.
type admission struct {
	until    context.Context //nolint:containedctx // that of the credential
	readOnly bool
}

// admissionKey is its key.
type admissionKey struct{}

// Admission returns what ends when those who may use the listener are others than those who could send a request with this context: the
// token has changed, or the listener shuts down. An answer that lasts ends with it.
func Admission(ctx context.Context) context.Context {
	if a, ok := ctx.Value(admissionKey{}).(admission); ok {
		return a.until
	}
	return context.Background() // it was not sent to a listener
}

// ReadOnly reports whether the client of a request with this context may change nothing. The listener refuses its changes; who answers needs
// this only so as to offer none.
func ReadOnly(ctx context.Context) bool {
	a, _ := ctx.Value(admissionKey{}).(admission)
	return a.readOnly
}

// looks reports whether a request changes nothing: by its method, or as what it changes is the browser's own.
func looks(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.URL.Path == SettingsPath || r.URL.Path == SignInPath
}
