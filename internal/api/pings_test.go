package api

import (
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ping URLs work at any listen address and need no token. A request with another host's name is refused.
func TestPingsNeedNoToken(t *testing.T) {
	pings := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path)
	})
	for name, c := range map[string]struct {
		addr    string
		off     bool
		options Options
		header  []string
		status  int
	}{
		"loopback":               {"127.0.0.1:0", false, Options{}, nil, 200},
		"the advertised host":    {"127.0.0.1:0", false, Options{Access: Access{Advertise: "http://tasks.example:7070"}}, []string{"Host", "tasks.example:7070"}, 200},
		"another host":           {"127.0.0.1:0", false, Options{}, []string{"Host", "evil.example"}, 403},
		"off loopback, no token": {"127.0.0.1:0", true, Options{}, []string{"Host", "agent.example"}, 200},
		"off loopback, a token":  {"127.0.0.1:0", true, Options{Access: Access{Token: "secret"}}, []string{"X-Forwarded-For", "1.2.3.4"}, 200},
		"a unix socket":          {"unix://" + filepath.Join(t.TempDir(), "s"), false, Options{}, []string{"Host", "whatever"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, c.addr)
			if c.off {
				l = everywhere{l}
			}
			c.options.Pings = pings
			ask := serve(t, l, c.options)
			for _, method := range []string{"GET", "POST"} {
				got := ask(method, "/ping/4211.9.mac/complete", c.header...)
				require.Equal(t, c.status, got.status)
				if c.status == 200 {
					require.Equal(t, method+" /ping/4211.9.mac/complete", got.body)
				}
			}
		})
	}
	ask := serve(t, listen(t, "127.0.0.1:0"), Options{})
	require.Equal(t, 404, ask("GET", "/ping/4211.9.mac").status, "no handler for pings")
}
