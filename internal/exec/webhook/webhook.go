// Package webhook runs attempts as HTTP callbacks: one request, and what its answer means (docs/protocol.md).
//
// It speaks HTTP/1.1 only, also over TLS, because there a connection carries one request at a time: so it is known to
// the byte whether anything of a request left, and closing the connection is a stop that every server notices. No
// proxy is used, whatever the environment says: a proxy's answer would stand where "connection refused" belongs.
package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Limits that no declaration changes.
const (
	dialTimeout = 5 * time.Second  // connection and, once more, TLS handshake
	maxHeader   = 64 << 10         // bytes of an answer's header
	maxAnswer   = 16 << 20         // bytes of an answer's body that are read at all
	idleTimeout = time.Second      // below what any common server allows an idle connection (gunicorn 2 s, Node 5 s)
	keepAlive   = 15 * time.Second // between TCP probes
)

// Options are what a Client needs.
type Options struct {
	Version string       // of the agent, for User-Agent
	Workers int          // attempts at once, and the most connections to one host; 0: no bound
	Log     *slog.Logger // nil: the default logger
}

// Client runs attempts. It is safe for use by many at once.
type Client struct {
	direct    *direct
	transport *http.Transport   // what direct does not send
	single    *http.Transport   // the same, with a connection for each request
	tries     http.RoundTripper // each try goes through it: direct, or what a test puts before it
	targets   targets
	log       *slog.Logger

	media, agent []string // the values of Content-Type and User-Agent; they do not change
}

// New makes a client with a transport of its own.
func New(o Options) *Client {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return newConn(conn), nil
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		Protocols:              protocols,
		DisableCompression:     true, // a small answer may not unfold into a large one
		MaxIdleConnsPerHost:    max(o.Workers, 16),
		MaxConnsPerHost:        o.Workers, // a dial that a freed connection has overtaken would be one too many
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
	single := transport.Clone()
	single.DisableKeepAlives = true // which the request says, too: Connection: close
	single.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return transport.DialContext(ctx, network, address)
	}
	direct := &direct{other: transport}
	return &Client{
		direct: direct, transport: transport, single: single, tries: direct, log: cmp.Or(o.Log, slog.Default()),
		media: []string{"application/json"}, agent: []string{"leasehold/" + o.Version},
	}
}

// Close closes idle connections. Attempts must be over.
func (c *Client) Close() { c.direct.CloseIdleConnections() }

// Run runs one attempt and says how it ended. When it returns, the answer has been read to its end or the connection
// is closed.
func (c *Client) Run(l *lease.Lease, t *task.Type, w *task.Webhook) task.Outcome {
	if w.Batch != nil {
		var o task.Outcome
		c.RunMany([]*lease.Lease{l}, t, w, func(_ int, end task.Outcome) { o = end })
		return o
	}
	if l.Context().Err() != nil {
		return stopped(l, true)
	}
	m, err := c.Message(l, t, w)
	if err != nil {
		return task.Outcome{Verdict: task.Rejected, Error: err.Error(), NeverStarted: true}
	}
	signer, err := newSigner(w.Secrets)
	if err != nil { // the declaration's fault, not the row's
		return task.Outcome{Verdict: task.Undelivered, Error: t.Source + ": " + err.Error(), NeverStarted: true}
	}
	ctx, release := requestContext(l, w.CancelGrace)
	defer release()

	l.Start()
	d := &attempt{delivery{client: c, hold: l, message: m, signer: signer}, l}
	resp, err := d.send(ctx)
	m.Body = nil // it is not sent again, and net/http's connection may refer to the delivery for longer than the attempt lasts
	if err != nil {
		return unheard(l, d.failure(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if isStream(resp, w) {
		return d.streamed(resp)
	}
	a, err := readAnswer(resp)
	if err != nil {
		return d.failure(err)
	}
	return afterStop(l, a.outcome(w))
}

// attempt is the delivery of one attempt's message.
type attempt struct {
	delivery
	lease *lease.Lease
}

// failure is the outcome of an attempt that got no whole answer.
func (d *attempt) failure(err error) task.Outcome {
	if d.stopping() {
		return stopped(d.lease, !d.left())
	}
	return d.unanswered(err)
}

// notHeard is what unheard adds.
const notHeard = ", none at all since the request was sent: is the server busy with other requests?"

// unheard adds to the outcome of an attempt that stalled without a sign that its request was read: a server that is busy with other
// requests leaves it in its queue, where no handler can ping. Where only progress counts the agent does not know of all pings: those without it
// leave no trace in the store.
func unheard(l *lease.Lease, o task.Outcome) task.Outcome {
	_, strict, _ := l.Policy().Liveness(l.Task().Phase())
	if o.Verdict == task.Stalled && !o.NeverStarted && !strict && !l.Heard() {
		o.Error += notHeard
	}
	return o
}

// requestContext is the context of the request: it ends when the lease's does, or where the attempt is cancelled, once
// the application has had its grace to answer. release ends it and waits until nothing of it is left.
func requestContext(l *lease.Lease, cancelGrace time.Duration) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Add(1)
	stop := context.AfterFunc(l.Context(), func() {
		defer watching.Done()
		defer cancel()
		if cause := l.Cause(); cause == nil || cause.Verdict != task.Cancelled {
			return
		}
		grace := time.NewTimer(min(cancelGrace, l.KillIn()))
		defer grace.Stop()
		select {
		case <-grace.C:
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		if !stop() {
			watching.Wait()
		}
	}
}

// stopped returns the outcome of an attempt whose lease ended before the response came.
func stopped(l *lease.Lease, neverStarted bool) task.Outcome {
	cause := l.Cause()
	if cause == nil {
		cause = &lease.Cause{Verdict: task.Drained, Reason: "the agent is stopping"}
	}
	o := cause.Outcome()
	if neverStarted && o.Verdict == task.TimedOut {
		o = task.Outcome{Verdict: task.Undelivered, Error: "no connection: " + o.Error}
	}
	o.NeverStarted, o.EndUnknown = neverStarted, !neverStarted
	return o
}

// afterStop returns the outcome of a response that came within the grace of a cancellation: a success counts, anything
// else becomes the cancellation.
func afterStop(l *lease.Lease, o task.Outcome) task.Outcome {
	cause := l.Cause()
	if cause == nil || cause.Verdict != task.Cancelled || o.Verdict == task.Succeeded {
		return o
	}
	cancelled := cause.Outcome()
	cancelled.EndUnknown = o.EndUnknown || o.Accepted // a target that goes on has not stopped, although it was asked to
	if o.Error != "" {
		cancelled.Error = fmt.Sprintf("%s (%s)", cancelled.Error, o.Error)
	}
	return cancelled
}
