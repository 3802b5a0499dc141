package webhook

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/task"
)

// How often, within one attempt, a request is tried again of which nothing left: 4 times in 0.75 s. It bridges the
// moment in which a server is replaced; whatever takes longer is the breaker's.
const (
	maxRetries = 4
	retryMin   = 50 * time.Millisecond
	retryMax   = 400 * time.Millisecond
)

// hold is what a message is sent for: an attempt's lease, or a batch.
type hold interface {
	Now() time.Time           // the store's clock
	Context() context.Context // ends when what it is sent for must stop, or is over
}

// delivery is the sending of one message, and what is known of it.
type delivery struct {
	client  *Client
	hold    hold
	batch   *batch // the same, where the message has many attempts; else nil
	message *Message
	signer  signer
	trace   httptrace.ClientTrace

	// Of the present try: the connection that it got (nil: none) and how much had been written to it before.
	conn   *countedConn
	before int64
	reused bool
	opaque bool // the connection is none of ours: nothing is known

	anew bool // an idle connection turned out to be closed: the next try gets a new one
	held bool // the present try was given up before anything was written, since attempts in the message had ended
}

// send sends the message and returns the answer's header. It sends again only what never left. ctx ends it, the
// reading of the answer's body included.
func (d *delivery) send(ctx context.Context) (*http.Response, error) {
	m := d.message
	d.trace.GotConn = d.gotConn
	r := &http.Request{
		Method: m.Method, URL: m.URL, Host: m.Host, Header: m.Header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// Without GetBody, Go's transport cannot send the request a second time automatically.
		Body: requestBody(m.Body), ContentLength: int64(len(m.Body)),
	}
	if len(m.Body) == 0 {
		r.Body = http.NoBody
	}
	if u := m.URL.User; u != nil && m.Header.Get("Authorization") == "" {
		password, _ := u.Password()
		r.SetBasicAuth(u.Username(), password)
	}
	r = r.WithContext(httptrace.WithClientTrace(ctx, &d.trace))
	d.begin()
	resp, err := d.try(r)
	if err != nil && d.again(ctx) {
		return d.retry(r, err)
	}
	return resp, err
}

// try makes one try, and learns from it whether the target keeps its connections.
func (d *delivery) try(r *http.Request) (*http.Response, error) {
	if d.anew || d.client.targets.fresh(r.URL) {
		return d.client.single.RoundTrip(r)
	}
	resp, err := d.client.tries.RoundTrip(r)
	switch {
	case d.conn == nil:
	case err == nil:
		if d.conn.answers.Add(1) > 1 {
			d.client.targets.kept(r.URL)
		}
	case d.held:
	case d.reused && d.conn.answers.Load() <= 1 && !d.stopping(): // the first answer may be yet to be counted
		d.client.targets.closed(r.URL)
	}
	if err != nil && d.reused && !d.held && !d.left() {
		d.anew = true
		d.client.direct.CloseIdleConnections() // the others are likely to be as old
	}
	return resp, err
}

// begin forgets what is known of an earlier try, and signs the message for the next.
func (d *delivery) begin() {
	d.conn, d.before, d.reused, d.opaque, d.held = nil, 0, false, false, false
	if d.signer.signs() {
		d.signer.sign(d.message.Header, d.message.ID, d.hold.Now(), d.message.Body)
	}
}

// again reports whether a try that failed may be followed by another.
func (d *delivery) again(ctx context.Context) bool {
	return !d.left() && ctx.Err() == nil && !d.stopping()
}

// retry goes on after a first try that failed with err, and of which nothing left.
func (d *delivery) retry(r *http.Request, err error) (*http.Response, error) {
	r = r.WithContext(r.Context()) // the transport may not be done with the body of the first
	r.Body = nil
	req, rerr := retryablehttp.FromRequest(r)
	if rerr != nil {
		return nil, rerr
	}
	if rerr := req.SetBody(d.message.Body); rerr != nil {
		return nil, rerr
	}
	req.GetBody = nil
	first := true
	client := retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if first { // it counts, and is not made twice
					first = false
					return nil, err
				}
				if d.batch != nil { // each try begins with the body of the first, also after one that was written anew
					d.batch.renew(d.message)
					r = r.WithContext(r.Context())
					r.Body, r.ContentLength = requestBody(d.message.Body), int64(len(d.message.Body))
				}
				d.begin()
				return d.try(r)
			}),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax:     maxRetries,
		RetryWaitMin: retryMin,
		RetryWaitMax: retryMax,
		Backoff:      d.backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
		CheckRetry: func(ctx context.Context, _ *http.Response, err error) (bool, error) {
			return err != nil && d.again(ctx), nil
		},
	}
	return client.Do(req)
}

// roundTrip is a function as a transport. It has no CloseIdleConnections, which retryablehttp calls whenever a request
// fails: one target that is down must not cost all others their connections.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// gotConn notes the connection that the request is about to be written to. To one that the server has closed since it
// was last used nothing is written: a request that is lost in it would look as if it had been sent. Nor is anything sent
// any more once the attempt is to stop, or one of those in the message has ended.
func (d *delivery) gotConn(info httptrace.GotConnInfo) {
	d.conn = counted(info.Conn)
	if d.conn == nil {
		d.opaque = true
		return
	}
	d.before, d.reused = d.conn.written.Load(), info.Reused
	if d.stopping() {
		_ = d.conn.Close()
		return
	}
	if d.batch != nil && !d.batch.commit() {
		d.held = true
		_ = d.conn.Close()
		return
	}
	d.conn.probe.Store(info.Reused)
}

// left reports whether the target may have got anything of the present try. It is certain once the transport has given
// the request up: it waits for its writer before it does.
func (d *delivery) left() bool {
	return d.opaque || d.conn != nil && d.conn.written.Load() > d.before && !d.conn.refused(d.before)
}

// stopping reports whether the attempt is to stop, also while it still has its grace.
func (d *delivery) stopping() bool { return d.hold.Context().Err() != nil }

// backoff doubles, from nothing where it was only a connection that had grown old.
func (d *delivery) backoff(low, high time.Duration, retry int, _ *http.Response) time.Duration {
	if d.reused {
		return 0
	}
	return min(low<<retry, high)
}

// unanswered is the outcome of an attempt that got no whole answer, and was not to stop.
func (d *delivery) unanswered(err error) task.Outcome {
	if u, ok := errors.AsType[*url.Error](err); ok { // it repeats the URL, and with it what may be secret there
		err = u.Err
	}
	if !d.left() {
		return task.Outcome{
			Verdict: task.Undelivered, NeverStarted: true,
			Error: "could not be sent: " + answer.Line(err.Error()),
		}
	}
	if _, ok := errors.AsType[*partialError](err); !ok {
		err = &partialError{text: "the connection was lost before an answer came", err: err}
	}
	return brokenOff(err)
}

// brokenOff is the outcome of an attempt whose request has left for certain, and that got no whole answer.
func brokenOff(err error) task.Outcome {
	return task.Outcome{Verdict: task.Failed, Error: answer.Line(err.Error()), EndUnknown: true}
}
