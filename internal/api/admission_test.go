package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAdmissionEndsWithTheToken: whatever a request was admitted by, an answer to it ends with that, however late it begins.
func TestAdmissionEndsWithTheToken(t *testing.T) {
	admitted := make(chan context.Context, 1)
	g := &guard{next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { admitted <- Admission(r.Context()) })}
	ask := func(token string) context.Context {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/events", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		g.ServeHTTP(httptest.NewRecorder(), r)
		select {
		case ctx := <-admitted:
			return ctx
		default:
			return nil // it was refused
		}
	}
	g.admit(Access{Token: "one"})
	first := ask("one")
	require.NoError(t, first.Err())
	g.admit(Access{Token: "one", Advertise: "http://example.com:80"})
	require.NoError(t, first.Err(), "the token is the same")
	require.NoError(t, ask("one").Err())
	g.admit(Access{Token: "two"})
	require.Error(t, first.Err())
	require.Nil(t, ask("one"))
	second := ask("two")
	require.NoError(t, second.Err())
	g.close()
	require.Error(t, second.Err())
	require.NoError(t, Admission(context.Background()).Err(), "what no listener has admitted does not end")
}
