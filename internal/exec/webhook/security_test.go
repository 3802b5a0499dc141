package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
)

// TestARedirectLeadsNowhere has an endpoint redirect to another host, which must not see the body, the declared headers or the ping URL.
func TestARedirectLeadsNowhere(t *testing.T) {
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the other host is asked") })
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, again := range []bool{false, true} { // at the first try, and at one after it, which another client sends
			w := to(serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Location", elsewhere+"/take")
				w.Header().Set("Refresh", "0; url="+elsewhere)
				w.WriteHeader(status)
			}))
			w.Headers = map[string]task.Template{"Authorization": exectest.Text("Bearer geheim")}
			c, tries := client(t), 0
			c.tries = roundTrip(func(r *http.Request) (*http.Response, error) {
				if tries++; again && tries == 1 {
					return nil, errors.New("no way there")
				}
				return c.direct.RoundTrip(r)
			})
			o := run(t, c, exectest.Attempt{}, w)
			require.Equal(t, task.Failed, o.Verdict, status)
			require.NotContains(t, o.Error, "geheim")
		}
	}
}

// TestServersAreVerified asks servers whose certificate is another host's, and servers that speak old versions of TLS: nothing is sent.
func TestServersAreVerified(t *testing.T) {
	var sent atomic.Int32
	start := func(version uint16) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent.Add(1) }))
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	for version, want := range map[uint16]task.Verdict{
		tls.VersionTLS10: task.Undelivered, tls.VersionTLS11: task.Undelivered, tls.VersionTLS12: task.Succeeded, tls.VersionTLS13: task.Succeeded,
	} {
		sent.Store(0)
		s, c := start(version), client(t)
		c.transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		c.transport.TLSClientConfig.RootCAs.AddCert(s.Certificate())
		o := run(t, c, exectest.Attempt{}, to(s.URL))
		require.Equal(t, want, o.Verdict, "%s: %s", tls.VersionName(version), o.Error)
		require.Equal(t, want == task.Succeeded, sent.Load() == 1)

		sent.Store(0)
		o = run(t, c, exectest.Attempt{}, to(strings.Replace(s.URL, "127.0.0.1", "localhost", 1)))
		require.Equal(t, task.Undelivered, o.Verdict, "the certificate is not for that name")
		require.Zero(t, sent.Load())
	}
}
