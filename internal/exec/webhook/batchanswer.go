package webhook

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/task"
)

// read reads the response to a batch, and ends all of its attempts: by their lines as these come, and the others by what the response
// means as a whole.
func (b *batch) read(resp *http.Response) {
	status := resp.StatusCode
	if status < 200 || status > 299 {
		b.refused(resp)
		return
	}
	if status == http.StatusNoContent {
		b.endAll(task.Outcome{Verdict: task.Succeeded})
		return
	}
	if media(resp.Header) == "application/x-ndjson" {
		b.readLines(resp, resp.Body, newLines())
		return
	}
	body := bufio.NewReaderSize(resp.Body, pieceSize)
	if array, err := opensArray(body); array || err != nil {
		if err != nil {
			b.lost(fmt.Sprintf("answered %d, and the answer did not end", status), err)
			return
		}
		b.readLines(resp, body, &elements{most: maxLine})
		return
	}
	text, _, err := readLong(body)
	if err != nil {
		b.lost(fmt.Sprintf("answered %d, and the answer did not end", status), err)
		return
	}
	o := task.Outcome{Verdict: task.Failed, EndUnknown: true}
	o.Error = fmt.Sprintf("answered %d without a line for each task, as an endpoint does that knows no batches", status)
	if words := answer.Words(media(resp.Header), text); words != "" {
		o.Error += ": " + words
	}
	b.endAll(o)
}

// opensArray skips white space, and reports whether a JSON array begins after it. A body that is empty is none, and no error.
func opensArray(body *bufio.Reader) (bool, error) {
	for {
		c, err := body.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		case c == '[':
			return true, nil
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			return false, body.UnreadByte()
		}
	}
}

// refused handles a response that is no success, and has no lines.
func (b *batch) refused(resp *http.Response) {
	a, err := readAnswer(resp)
	if err != nil {
		b.endAll(b.whole(brokenOff(err)))
		return
	}
	o := a.outcome(b.target)
	if o.Verdict != task.Deferred {
		o = b.whole(o)
	}
	b.endAll(o)
}

// lost ends the attempts that have no line in a response that broke off. Its connection is not asked whether the request has left: a
// response has come, and the connection may still be at work.
func (b *batch) lost(what string, err error) {
	b.endAll(b.whole(brokenOff(&partialError{text: what, err: err})))
}

// endsWell reports whether a response whose body ended with io.EOF has certainly come to its end: its length was known, or was
// delimited. Otherwise the end is where the connection closes, for whatever reason.
func endsWell(resp *http.Response) bool {
	return resp.ContentLength >= 0 || slices.Contains(resp.TransferEncoding, "chunked")
}

// errJunk is the end of a response that has too much in it that is of no use.
var errJunk = fmt.Errorf("it has more than %d bytes that are neither an end nor a ping of one of its tasks", maxAnswer)

// splitter cuts a response into what is about one attempt each.
type splitter interface {
	// Add takes in a piece and calls each with what it completes; nil is what was too long.
	Add(piece []byte, each func(line []byte))
	// End calls each with what came last, at the end of the body.
	End(each func(line []byte))
	// Ended reports whether the response has said everything; eof: its body has come to its end.
	Ended(eof bool) bool
}

// readLines reads the lines of a response, or the elements of an array, until all attempts have ended, or it has.
func (b *batch) readLines(resp *http.Response, body io.Reader, split splitter) {
	r := reading{batch: b}
	err := r.read(body, split)
	r.report()
	if b.isOver() {
		linger(resp.Body, body)
		return
	}
	switch {
	case err == nil: // the array is complete
		linger(resp.Body, body)
	case errors.Is(err, io.EOF) && endsWell(resp) && split.Ended(true):
	default:
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		b.lost("the answer broke off", err)
		return
	}
	for _, x := range b.rows {
		b.end(x, task.Outcome{
			Verdict: task.Failed, EndUnknown: true, Error: "the answer ended without a line for this task" + x.refused,
		})
	}
}

// blank reports whether a line says nothing.
func blank(line []byte) bool { return line != nil && len(bytes.TrimSpace(line)) == 0 }
