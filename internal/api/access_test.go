package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const readSecret = "another-token-to-read-with"

// changing are requests that change something, but for the reload.
var changing = [][2]string{
	{"POST", "/api/v1/tasks"}, {"POST", "/api/v1/tasks/1/cancel"}, {"DELETE", "/api/v1/schedules/x"}, {"PATCH", "/api/v1/tasks/1"},
	{"PUT", "/api/v1/tasks/1"}, {"OPTIONS", "/api/v1/tasks"}, {"POST", "/tasks/1/cancel"}, {"POST", "/changes"}, {"POST", "/agents/x/drain"},
	{"POST", "/settings/"}, {"POST", "//settings"}, {"POST", "/sign-in/../changes"}, {"PURGE", "/"}, {"get", "/tasks"},
}

// TestReadTokenReads lets a client with the read token look at everything, and change nothing.
func TestReadTokenReads(t *testing.T) {
	b := browserOf(t, Access{Token: secret, ReadToken: readSecret})
	reader, full := "Bearer "+readSecret, "Bearer "+secret
	for _, path := range []string{"/", "/tasks?state=failed", "/api/v1/tasks", "/api/v1/events"} {
		require.Equal(t, 200, b.send("GET", path, "", "Authorization", reader).Code, path)
		require.Equal(t, 200, b.send("HEAD", path, "", "Authorization", reader).Code, path)
	}
	for _, c := range append(changing, [2]string{"POST", ReloadPath}) {
		w := b.send(c[0], c[1], "x=1", "Authorization", reader)
		require.Equal(t, 403, w.Code, "%v: %s", c, w.Body)
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"), c)
		require.Contains(t, w.Body.String(), "for reading only: to change something, give the `token`", c)
		require.NotContains(t, b.send(c[0], c[1], "x=1", "Authorization", full).Body.String(), "reading only", c)
		require.Equal(t, 401, b.send(c[0], c[1], "x=1", "Authorization", "Bearer x").Code, c)
	}
	require.Equal(t, 200, b.send("POST", "/settings", "theme=dark", "Authorization", reader).Code, "the browser's own")
	require.Equal(t, 200, b.send("POST", "/ping/1", "{}", "Authorization", reader).Code, "a ping has a secret of its own")
	require.Equal(t, 200, b.send("POST", "/api/v1/tasks", "{}", "Authorization", full).Code)
	require.Equal(t, 200, b.send("POST", ReloadPath, "x=1", "Authorization", full).Code)
	require.True(t, b.g.mayRead(header("Authorization", reader)), "it may know why the agent is not ready")
	require.False(t, b.g.mayRead(header("Authorization", "Bearer x")))

	b.g.admit(Access{ReadToken: readSecret})
	require.Equal(t, 200, b.send("GET", "/api/v1/tasks", "", "Authorization", reader).Code)
	require.Contains(t, b.send("POST", "/api/v1/tasks", "{}", "Authorization", reader).Body.String(), "none for changing is configured")
	require.Equal(t, 401, b.send("POST", "/api/v1/tasks", "{}", "Authorization", full).Code)
	require.Equal(t, 401, b.send("POST", "/api/v1/tasks", "{}", "Authorization", "Bearer ").Code, "no token is no empty one")
	require.Equal(t, 200, b.send("GET", SignInPath, "").Code)
}

func header(name, value string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), "GET", "/-/ready", http.NoBody)
	r.Header.Set(name, value)
	return r
}

// TestReadersSignIn gives a cookie that is worth what the token is.
func TestReadersSignIn(t *testing.T) {
	b := browserOf(t, Access{Token: secret, ReadToken: readSecret})
	w, reader := b.signIn(readSecret)
	require.Equal(t, 303, w.Code)
	_, full := b.signIn(secret)
	require.NotEqual(t, full, reader)
	require.Contains(t, b.send("GET", "/tasks", "", "Cookie", reader).Body.String(), "read only: true")
	require.Contains(t, b.send("GET", "/tasks", "", "Cookie", full).Body.String(), "read only: false")
	require.Equal(t, 200, b.send("GET", "/api/v1/events", "", "Cookie", reader).Code)
	require.Equal(t, 401, b.send("GET", "/api/v1/tasks", "", "Cookie", reader).Code, "the API takes no cookie")
	require.Equal(t, 403, b.send("POST", "/tasks/1/cancel", "x=1", "Cookie", reader).Code)
	require.Equal(t, 200, b.send("POST", "/tasks/1/cancel", "x=1", "Cookie", full).Code)
	require.Equal(t, 403, b.send("POST", "/tasks/1/cancel", "x=1", "Cookie", full, "Authorization", "Bearer "+readSecret).Code, "what is sent on purpose counts")

	// What a reader can make of a cookie: other times, and the code of the other kind.
	until, code, _ := strings.Cut(strings.TrimPrefix(reader, sessionCookie+"="), ".")
	for _, forged := range []string{until + ".", until + ".full." + code, "0" + until + "." + code, until + "." + strings.ToUpper(code)} {
		require.Equal(t, 401, b.send("POST", "/tasks/1/cancel", "x=1", "Accept", "*/*", "Cookie", sessionCookie+"="+forged).Code, forged)
	}

	b.g.admit(Access{Token: "a-new-token", ReadToken: readSecret})
	require.Equal(t, 200, b.send("GET", "/tasks", "", "Cookie", reader).Code, "it ends with its own token only")
	require.Equal(t, 303, b.send("GET", "/tasks", "", "Cookie", full).Code)
	b.g.admit(Access{Token: readSecret})
	require.Equal(t, 303, b.send("GET", "/tasks", "", "Cookie", reader).Code, "it is not worth more when the token is")
	b.g.admit(Access{Token: secret, ReadToken: "a-new-token"})
	require.Equal(t, 303, b.send("GET", "/tasks", "", "Cookie", reader).Code)
	require.Equal(t, 200, b.send("POST", "/tasks/1/cancel", "x=1", "Cookie", full).Code)
	now := b.g.admits.Load()
	require.False(t, now.reader.signedIn(header("Cookie", full), time.Now()))
}

// TestReadOnlyAgent refuses every change but a reload, on loopback and off it.
func TestReadOnlyAgent(t *testing.T) {
	for _, local := range []bool{true, false} {
		b := browserOf(t, Access{Token: secret, ReadToken: readSecret, ReadOnly: true})
		b.g.local = local
		host := "http://127.0.0.1:7070"
		send := func(method, path string, more ...string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), method, host+path, strings.NewReader("x=1"))
			r.Header.Set("Authorization", "Bearer "+secret)
			for i := 0; i < len(more); i += 2 {
				r.Header.Set(more[i], more[i+1])
			}
			w := httptest.NewRecorder()
			b.g.ServeHTTP(w, r)
			return w
		}
		require.Contains(t, send("GET", "/tasks").Body.String(), "read only: true")
		for _, c := range changing {
			w := send(c[0], c[1])
			require.Equal(t, 403, w.Code, c)
			require.Contains(t, w.Body.String(), "remove `read_only`", c)
		}
		require.Equal(t, 200, send("POST", ReloadPath).Code, "which can take it back")
		require.Equal(t, 200, send("POST", "/ping/1").Code)

		refused := ""
		b.g.refuse = func(w http.ResponseWriter, _ *http.Request, reason string) {
			refused = reason
			w.WriteHeader(http.StatusForbidden)
		}
		require.Equal(t, 403, send("POST", "/api/v1/tasks", "Accept", "text/html").Code)
		require.Empty(t, refused, "the API answers with problems")
		require.Equal(t, 403, send("POST", "/changes", "Accept", "text/html").Code)
		require.Contains(t, refused, "read-only")
		b.g.admit(Access{Token: secret})
		require.Equal(t, 200, send("POST", "/changes").Code)
	}
}

// TestAdmissionEndsWithItsToken ends what was admitted by a token that has changed, and nothing else.
func TestAdmissionEndsWithItsToken(t *testing.T) {
	admitted := make(chan context.Context, 1)
	g := &guard{next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { admitted <- Admission(r.Context()) })}
	ask := func(token string) context.Context {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/events", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		g.ServeHTTP(httptest.NewRecorder(), r)
		return <-admitted
	}
	g.admit(Access{Token: "one", ReadToken: "two"})
	full, reader := ask("one"), ask("two")
	g.admit(Access{Token: "one", ReadToken: "three", ReadOnly: true})
	require.NoError(t, full.Err())
	require.Error(t, reader.Err())
	reader = ask("three")
	g.admit(Access{ReadToken: "three"})
	require.Error(t, full.Err())
	require.NoError(t, reader.Err())
	g.close()
	require.Error(t, reader.Err())
}
