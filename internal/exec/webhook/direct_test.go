package webhook

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
)

const empty = "HTTP/1.1 204 No Content\r\n\r\n"

// A connection serves one request after another, whatever the form of the responses.
func TestConnectionIsUsedAgain(t *testing.T) {
	var conns, served atomic.Int32
	forms := []string{
		empty, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Trailer: a\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + empty,
	}
	url := raw(t, func(c net.Conn) {
		conns.Add(1)
		for request(c) {
			_, _ = io.WriteString(c, forms[int(served.Add(1))%len(forms)])
		}
	})
	c := client(t)
	for range 3 * len(forms) {
		o := run(t, c, exectest.Attempt{}, to(url))
		require.Equal(t, task.Succeeded, o.Verdict, o.Error)
	}
	require.EqualValues(t, 1, conns.Load())
}

// What a server sends unasked must not pass for the response to the next request.
func TestUnaskedResponseIsDropped(t *testing.T) {
	const unasked = "HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n"
	for name, later := range map[string]bool{"with the response": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int32
			send, sent := make(chan struct{}), make(chan struct{})
			url := raw(t, func(c net.Conn) {
				first := conns.Add(1) == 1
				for request(c) {
					switch {
					case first && later:
						_, _ = io.WriteString(c, empty)
						<-send
						_, _ = io.WriteString(c, unasked)
						close(sent)
					case first:
						_, _ = io.WriteString(c, empty+unasked)
					default:
						_, _ = io.WriteString(c, empty)
					}
				}
			})
			c := client(t)
			for range 2 {
				o := run(t, c, exectest.Attempt{}, to(url))
				require.Equal(t, task.Succeeded, o.Verdict, o.Error)
				if later && conns.Load() == 1 {
					close(send)
					<-sent
				}
			}
			require.EqualValues(t, 2, conns.Load())
		})
	}
}

// A server may answer before it has read the request, and never read it.
func TestResponseBeforeTheRequestIsRead(t *testing.T) {
	for name, size := range map[string]int{"direct": maxDirect - 4096, "by net/http": 8 << 20} {
		t.Run(name, func(t *testing.T) {
			stop := make(chan struct{})
			url := raw(t, func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n")
				<-stop
			})
			defer close(stop)
			row := task.Task{Payload: json.RawMessage(`"` + strings.Repeat("x", size) + `"`)}
			o := run(t, client(t), exectest.Attempt{Task: row, Policy: task.Policy{Timeout: time.Minute}}, to(url))
			require.Equal(t, task.Rejected, o.Verdict, o.Error)
		})
	}
}

// A response that never begins ends with its interim responses.
func TestEndlessInterimResponses(t *testing.T) {
	url := raw(t, func(c net.Conn) {
		if request(c) {
			_, _ = io.WriteString(c, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", maxInterim+1)+empty)
			closed(c)
		}
	})
	o := run(t, client(t), exectest.Attempt{}, to(url))
	require.Equal(t, task.Failed, o.Verdict)
	require.True(t, o.EndUnknown)
}

// Idle connections are closed before servers close them.
func TestIdleConnectionIsClosed(t *testing.T) {
	over := make(chan struct{})
	url := raw(t, func(c net.Conn) {
		if request(c) {
			_, _ = io.WriteString(c, empty)
			closed(c)
			close(over)
		}
	})
	o := run(t, client(t), exectest.Attempt{}, to(url))
	require.Equal(t, task.Succeeded, o.Verdict, o.Error)
	select {
	case <-over:
	case <-time.After(10 * idleTimeout):
		t.Fatal("the connection is still open")
	}
}

// Requests that are not small, or not plain, are left to net/http.
func TestIsDirect(t *testing.T) {
	for name, c := range map[string]struct {
		url    string
		size   int
		header int
		want   bool
	}{
		"small":       {"http://127.0.0.1:8080/a?b", 1000, 10, true},
		"no port":     {"http://example.com", 0, 0, true},
		"TLS":         {"https://example.com", 10, 0, false},
		"long body":   {"http://example.com", maxDirect + 1, 0, false},
		"long header": {"http://example.com", 10, maxDirect, false},
		"long path":   {"http://example.com/" + strings.Repeat("a", maxDirect), 10, 0, false},
		"foreign":     {"http://bücher.example", 10, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, strings.NewReader(strings.Repeat("x", c.size)))
			require.NoError(t, err)
			r.Header.Set("X-A", strings.Repeat("a", c.header))
			require.Equal(t, c.want, isDirect(r))
		})
	}
}
