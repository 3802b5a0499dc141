package webhook

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/task"
)

// received is a whole answer: its body has been read to its end.
type received struct {
	status int
	header http.Header
	media  string // the body's type without parameters, lower case
	body   []byte // at most task.MaxResult+1 bytes
	size   int64  // of the whole body
}

// partialError says that an answer began and did not end.
type partialError struct {
	text string
	err  error
}

func (e *partialError) Error() string { return fmt.Sprintf("%s: %s", e.text, e.err) }
func (e *partialError) Unwrap() error { return e.err }

// readAnswer reads an answer to its end; what is too long to be kept is read and dropped, so that the connection can
// be used again. An answer that does not end, or not within maxAnswer, is a *partialError: it is no answer.
func readAnswer(resp *http.Response) (a received, err error) {
	a = received{status: resp.StatusCode, header: resp.Header, media: media(resp.Header)}
	switch n := resp.ContentLength; {
	case n == 0 || a.status == http.StatusSwitchingProtocols: // nothing is to be read, as with 204
	case 0 < n && n <= task.MaxResult: // the body ends with its last byte, and so does reading it
		a.body = make([]byte, n)
		var kept int
		kept, err = io.ReadFull(resp.Body, a.body)
		a.size = int64(kept)
	default:
		a.body, a.size, err = readLong(resp.Body)
	}
	if err != nil {
		return received{}, &partialError{text: fmt.Sprintf("answered %d, and the answer did not end", a.status), err: err}
	}
	return a, nil
}

// readLong reads a body whose length is not known, or is more than can be kept: its first bytes, and how many there are.
func readLong(from io.Reader) (kept []byte, size int64, err error) {
	var body bytes.Buffer
	size, err = io.Copy(&body, io.LimitReader(from, task.MaxResult+1))
	if err == nil && size > task.MaxResult {
		var more int64
		more, err = io.Copy(io.Discard, io.LimitReader(from, maxAnswer-size+1))
		size += more
	}
	if err == nil && size > maxAnswer {
		err = fmt.Errorf("the limit is %d bytes", maxAnswer)
	}
	return body.Bytes(), size, err
}

// media is the type of the body, without parameters and in lower case; "" where it is not given.
func media(h http.Header) string {
	t := h.Get("Content-Type")
	if t == "" || t == "application/json" {
		return t
	}
	media, _, _ := mime.ParseMediaType(t) // what does not parse is no type that matters
	return media
}

// isStream reports whether an answer is one ping after the other, and the result.
func isStream(resp *http.Response, w *task.Webhook) bool {
	return resp.StatusCode == http.StatusOK && media(resp.Header) == "application/x-ndjson" && !slices.Contains(w.Permanent, http.StatusOK)
}

// outcome is what the answer means: the declared permanent statuses come first, then a problem document, then the
// table of docs/protocol.md.
func (a *received) outcome(w *task.Webhook) task.Outcome {
	p := parseProblem(a.media, a.body)
	var o task.Outcome
	switch {
	case slices.Contains(w.Permanent, a.status):
		o.Verdict = task.Rejected
	case a.status == http.StatusSwitchingProtocols:
		o.Verdict, o.EndUnknown = task.Failed, true
	case p.Stale:
		o.Verdict, o.EndUnknown = task.Superseded, true
	case p.Final:
		o.Verdict = task.Rejected
	default:
		a.table(w, &o)
	}
	if o.Verdict != task.Succeeded && !o.Accepted {
		o.Error = a.text(p)
	}
	return o
}

// table is the answer table.
func (a *received) table(w *task.Webhook, o *task.Outcome) {
	switch s := a.status; {
	case s == http.StatusAccepted && w.Async:
		o.Accepted = true
	case 200 <= s && s <= 299:
		o.Verdict = task.Succeeded
		o.Result, o.Note = answer.Result(a.body, a.size)
	case s == http.StatusGone, s == http.StatusUnprocessableEntity:
		o.Verdict = task.Rejected
	case s == http.StatusTooEarly, s == http.StatusTooManyRequests:
		o.Verdict, o.RetryAfter = task.Deferred, retryAfter(a.header)
	case s == http.StatusServiceUnavailable:
		o.Verdict, o.RetryAfter, o.Unavailable = task.Deferred, retryAfter(a.header), true
	default:
		o.Verdict = task.Failed
	}
}

// text says in one line what the answer was.
func (a *received) text(p problem) string {
	words := p.text()
	if words == "" {
		words = answer.Words(a.media, a.body)
	}
	if words == "" {
		words = http.StatusText(a.status)
	}
	if words == "" {
		return fmt.Sprintf("answered %d", a.status)
	}
	return fmt.Sprintf("answered %d: %s", a.status, words)
}
