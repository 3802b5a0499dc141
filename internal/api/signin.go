package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// A browser cannot be told to send the token with each request, so the dashboard has a form for it (SignInPath): what it gets is a cookie
// that says until when it is signed in, under a code that only the token's holders can make. It holds for every agent with that token, for what
// the token is for, and ends with the token. It is taken for the dashboard, and for reading the API's events, which the dashboard does.

const (
	// SignInPath is where the token is given.
	SignInPath = "/sign-in"
	// SettingsPath is where a browser is told what its user prefers, which only the browser keeps.
	SettingsPath = "/settings"

	sessionCookie = "leasehold_session"
	signedInFor   = 12 * time.Hour
	maxSignIn     = 4 << 10                // bytes, of the form
	betweenWrong  = 200 * time.Millisecond // of all clients together: a token is not to be guessed
)

// signIns counts wrong tokens.
type signIns struct {
	mu   sync.Mutex
	next time.Time // no token is looked at before
}

// enter reports whether a token may be looked at now.
func (s *signIns) enter(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !now.Before(s.next)
}

// wrong notes a wrong token.
func (s *signIns) wrong(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = now.Add(betweenWrong)
}

// seal is the code under a time: a MAC whose key is the token. That of one for reading is another, so that no cookie can mean more once the
// token is used for another purpose.
func (c *credential) seal(until string) string {
	mac := hmac.New(sha256.New, []byte(c.token))
	purpose := "leasehold dashboard\n"
	if c.reads {
		purpose = "leasehold dashboard, reading\n"
	}
	mac.Write([]byte(purpose + until))
	return hex.EncodeToString(mac.Sum(nil))
}

// signedIn reports whether a request has the cookie of a browser that has signed in with the token.
func (c *credential) signedIn(r *http.Request, now time.Time) bool {
	kept, err := r.Cookie(sessionCookie)
	if err != nil || c.token == "" {
		return false
	}
	until, code, _ := strings.Cut(kept.Value, ".")
	seconds, err := strconv.ParseInt(until, 10, 64)
	if err != nil || now.Unix() >= seconds || seconds > now.Add(signedInFor).Unix()+1 {
		return false
	}
	return hmac.Equal([]byte(code), []byte(c.seal(until)))
}

// forBrowsers reports whether a path is one for which a cookie is taken: a page, or the events that pages read.
func forBrowsers(r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		return r.Method == http.MethodGet && (r.URL.Path == "/api/v1/events" || strings.HasSuffix(r.URL.Path, "/events"))
	}
	return true
}

// visits reports whether a browser asks for a page, which can be sent to the form.
func visits(r *http.Request) bool {
	return r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/api/") && wantsPage(r)
}

// wantsPage reports whether an answer is best a page.
func wantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// ask sends a browser to the form.
func ask(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, SignInPath+"?back="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
}

// signIn takes the token from the form.
func (g *guard) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxSignIn)
	if err := r.ParseForm(); err != nil {
		Problem(w, http.StatusBadRequest, "the form cannot be read")
		return
	}
	back := Local(r.PostForm.Get("back"))
	now, a := time.Now(), g.admits.Load()
	by := a.given(r.PostForm.Get("token"))
	switch {
	case g.local: // nobody needs to
	case !a.any():
		Problem(w, http.StatusUnauthorized, a.remedy())
		return
	case !g.signIns.enter(now):
		w.Header().Set("Retry-After", "1")
		Problem(w, http.StatusTooManyRequests, "too many wrong tokens: try again in a moment")
		return
	case by == nil:
		g.signIns.wrong(now)
		http.Redirect(w, r, SignInPath+"?wrong&back="+url.QueryEscape(back), http.StatusSeeOther)
		return
	default:
		until := strconv.FormatInt(now.Add(signedInFor).Unix(), 10)
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure where the browser speaks TLS: the agent itself does not
			Name: sessionCookie, Value: until + "." + by.seal(until), Path: "/", MaxAge: int(signedInFor / time.Second), HttpOnly: true,
			SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
		})
	}
	http.Redirect(w, r, back, http.StatusSeeOther) //nolint:gosec // it is a path of this listener: see Local
}

// Local is a path of this listener, from a form; "/" where it leads elsewhere. Browsers leave out control characters, so that what stands on
// both sides of one may be two slashes, and take a backslash for a slash.
func Local(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(path, `\`) || strings.ContainsFunc(path, unicode.IsControl) {
		return "/"
	}
	return path
}
