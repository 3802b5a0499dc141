package api

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// A reload is asked for by POST, on a loopback listener by this host and elsewhere with the token, which may change meanwhile.
func TestWhoMayReload(t *testing.T) {
	asked := 0
	reload := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ })
	for _, c := range []struct {
		name, method, token, origin string
		local                       bool
		status                      int
	}{
		{"of this host", "POST", "", "", true, 200},
		{"a web page", "POST", "", "http://evil.example", true, 403},
		{"to look", "GET", "", "", true, 405},
		{"from elsewhere", "POST", "", "", false, 401},
		{"with a token of before", "POST", "old", "", false, 401},
		{"with the token", "POST", "new", "", false, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Close()) }()
			s := New(l, Options{Gatherer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Reload: reload, Access: Access{Token: "old"}})
			s.gate.local = c.local
			s.Admit(Access{Token: "new"})
			s.Keep(7)
			r := httptest.NewRequestWithContext(t.Context(), c.method, "http://127.0.0.1"+ReloadPath, http.NoBody)
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			asked = 0
			w := httptest.NewRecorder()
			s.gate.ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code, w.Body)
			require.Equal(t, c.status == 200, asked == 1)
			require.Equal(t, 7, s.listener.book.limit)
		})
	}
}
