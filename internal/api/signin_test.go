package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

const secret = "a-token-of-some-length"

// browser asks a guard off loopback, as a browser does.
type browser struct {
	t *testing.T
	g *guard
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	return browserOf(t, Access{Token: secret})
}

func browserOf(t *testing.T, to Access) *browser {
	t.Helper()
	l := everywhere{listen(t, "127.0.0.1:0")}
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "served %s, read only: %t", r.URL.Path, ReadOnly(r.Context()))
	})
	s := New(l, Options{Gatherer: prometheus.NewRegistry(), Access: to, V1: page, Web: page, Reload: page, Pings: page, Log: slog.New(slog.DiscardHandler)})
	return &browser{t, s.gate}
}

func (b *browser) send(method, path, form string, header ...string) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequestWithContext(b.t.Context(), method, "http://203.0.113.7:7070"+path, strings.NewReader(form))
	r.Header.Set("Accept", "text/html,application/xhtml+xml")
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.g.ServeHTTP(w, r)
	return w
}

// signIn gives the token, and returns the cookie.
func (b *browser) signIn(token string) (*httptest.ResponseRecorder, string) {
	b.t.Helper()
	w := b.send("POST", SignInPath, url.Values{"token": {token}, "back": {"/tasks?state=failed"}}.Encode())
	for _, c := range w.Result().Cookies() {
		return w, c.Name + "=" + c.Value
	}
	return w, ""
}

// TestSignIn lets a browser in that knows the token, and only to what is made for browsers.
func TestSignIn(t *testing.T) {
	b := newBrowser(t)
	w := b.send("GET", "/tasks?state=failed", "")
	require.Equal(t, 303, w.Code)
	require.Equal(t, "/sign-in?back=%2Ftasks%3Fstate%3Dfailed", w.Header().Get("Location"))
	require.Equal(t, 401, b.send("GET", "/tasks", "", "Accept", "*/*").Code, "what is no browser is told what is missing")
	require.Equal(t, 401, b.send("POST", "/tasks/1/cancel", "x=1").Code)
	require.Equal(t, 200, b.send("GET", SignInPath, "").Code)
	require.Equal(t, 200, b.send("GET", "/assets/x/style.css", "").Code)

	w, cookie := b.signIn(secret)
	require.Equal(t, 303, w.Code)
	require.Equal(t, "/tasks?state=failed", w.Header().Get("Location"))
	made := w.Result().Cookies()[0]
	require.True(t, made.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, made.SameSite)
	require.NotContains(t, made.Value, secret)
	require.Equal(t, 200, b.send("GET", "/tasks", "", "Cookie", cookie).Code)
	require.Equal(t, 200, b.send("POST", "/tasks/1/cancel", "x=1", "Cookie", cookie).Code)
	require.Equal(t, 200, b.send("GET", "/api/v1/events", "", "Cookie", cookie).Code, "pages read it")
	require.Equal(t, 401, b.send("GET", "/api/v1/tasks", "", "Cookie", cookie).Code, "the API takes no cookie")
	require.Equal(t, 401, b.send("POST", "/api/v1/tasks", "", "Cookie", cookie).Code)
	require.Equal(t, 401, b.send("POST", ReloadPath, "", "Cookie", cookie).Code)

	b.g.admit(Access{Token: "another-token-of-some-length"})
	require.Equal(t, 303, b.send("GET", "/tasks", "", "Cookie", cookie).Code, "it ends with the token")
}

// sealedUntil is a cookie as the token's holder could make it.
func (b *browser) sealedUntil(until time.Time) string {
	text := strconv.FormatInt(until.Unix(), 10)
	return sessionCookie + "=" + text + "." + b.g.admits.Load().full.seal(text)
}

// TestForgedCookies are not taken.
func TestForgedCookies(t *testing.T) {
	b := newBrowser(t)
	now := time.Now()
	a := b.g.admits.Load().full
	require.NotEqual(t, 303, b.send("GET", "/tasks", "", "Cookie", b.sealedUntil(now.Add(time.Hour))).Code)
	for _, cookie := range []string{
		b.sealedUntil(now.Add(-time.Second)), b.sealedUntil(now.Add(365 * 24 * time.Hour)), sessionCookie + "=", sessionCookie + "=.",
		sessionCookie + "=99999999999.", sessionCookie + "=99999999999.abcd", sessionCookie + "=" + secret,
		strings.Replace(b.sealedUntil(now.Add(time.Hour)), ".", "0.", 1), "leasehold=" + a.seal("x"),
	} {
		require.Equal(t, 303, b.send("GET", "/tasks", "", "Cookie", cookie).Code, cookie)
	}
	b.g.admit(Access{})
	require.Equal(t, 401, b.send("GET", "/tasks", "", "Cookie", b.sealedUntil(now.Add(time.Hour))).Code, "without a token nobody is signed in")
	require.Equal(t, 401, b.send("GET", SignInPath, "").Code, "and there is no form")
	require.Equal(t, 401, b.send("POST", SignInPath, "token=").Code)
	require.Equal(t, 401, b.send("GET", "/assets/x/style.css", "").Code)
}

// TestTokensAreNotGuessed slows wrong tokens down, takes no form of another site, and leads to no other site.
func TestTokensAreNotGuessed(t *testing.T) {
	b := newBrowser(t)
	w, cookie := b.signIn("wrong")
	require.Equal(t, 303, w.Code)
	require.Contains(t, w.Header().Get("Location"), "/sign-in?wrong")
	require.Empty(t, cookie)
	w, cookie = b.signIn(secret)
	require.Equal(t, 429, w.Code, "not at once after a wrong one")
	require.Empty(t, cookie)
	b.g.signIns.next = time.Time{}
	require.Equal(t, 403, b.send("POST", SignInPath, "token="+secret, "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, 403, b.send("POST", SignInPath, "token="+secret, "Origin", "http://evil.example").Code)
	for _, back := range []string{
		"//evil.example", "https://evil.example", `/\evil.example`, "/\t/evil.example", "/x\r\nSet-Cookie: a=b", "/x\x00", "",
	} {
		w := b.send("POST", SignInPath, url.Values{"token": {secret}, "back": {back}}.Encode())
		require.Equal(t, "/", w.Header().Get("Location"), back)
	}
	require.Equal(t, 400, b.send("POST", SignInPath, "token="+strings.Repeat("x", maxSignIn)).Code)
}
