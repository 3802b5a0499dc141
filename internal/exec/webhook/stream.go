package webhook

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of a streamed answer. How long it takes as a whole is the lease's business.
const (
	pieceSize = 4 << 10          // bytes that are read at once
	lingerFor = time.Second      // after the last line, for the server to end the answer
	lingerMax = 256 << 10        // bytes that are read then
	maxLine   = 2 * ping.MaxBody // bytes of a line: of the last one, of which a part may be kept, more than of a ping
)

// stream is a streamed answer: a ping on each line, and the result or an error on the last.
type stream struct {
	*attempt
	body    io.ReadCloser
	end     *ping.End
	refused ping.Refused
}

// streamed reads a streamed answer as long as the lease lives, and says what it means.
func (d *attempt) streamed(resp *http.Response) task.Outcome {
	s := stream{attempt: d, body: resp.Body}
	if err := s.read(); err != nil && s.end == nil {
		return s.cut(err)
	}
	linger(s.body, s.body)
	o := task.Outcome{Verdict: task.Succeeded}
	if !s.end.Failed {
		o.Result, o.Note = answer.Result(s.end.Result, int64(len(s.end.Result)))
		return afterStop(d.lease, o)
	}
	o.Verdict, o.Error = task.Failed, s.end.Error
	if s.end.Final {
		o.Verdict = task.Rejected
	}
	if o.Error == "" {
		o.Error = "the stream ended with an error that it did not name"
	}
	return afterStop(d.lease, o)
}

// read reads until the last line has come, or the answer has ended.
func (s *stream) read() error {
	lines := ping.Lines{Most: maxLine}
	for piece := make([]byte, pieceSize); ; {
		n, err := s.body.Read(piece)
		began := time.Now()
		lines.Add(piece[:n], s.line)
		if err != nil {
			if rest, ok := lines.Rest(); ok { // a last line needs no line feed
				s.line(rest)
			}
			return err
		}
		if s.end != nil {
			return nil
		}
		if pause := ping.Pause(time.Since(began)); pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-s.lease.Context().Done(): // the next read returns it
				timer.Stop()
			}
		}
	}
}

// line takes one line in; nil is one that is too long. What comes after the last one does not matter.
func (s *stream) line(line []byte) {
	if s.end != nil {
		return
	}
	if line == nil {
		s.refused.Add(errors.New("a line is too long"))
		return
	}
	p, end, ok, err := ping.Stream(line)
	switch {
	case err != nil:
		s.refused.Add(err)
	case end != nil:
		s.end = end
	case ok:
		s.lease.Ping(p)
	}
}

// linger lets the server end the response itself: to be cut off after its last line would look like a failure there. The body is
// read through from, which may hold a part of it.
func linger(body io.Closer, from io.Reader) {
	late := time.AfterFunc(lingerFor, func() { _ = body.Close() })
	defer late.Stop()
	_, _ = io.Copy(io.Discard, io.LimitReader(from, lingerMax)) // nothing of it matters
}

// cut is the outcome of a stream without a last line.
func (s *stream) cut(err error) task.Outcome {
	if errors.Is(err, io.EOF) && !s.stopping() {
		return task.Outcome{
			Verdict: task.Failed, EndUnknown: true,
			Error: "the stream ended without a result or an error" + s.refused.String(),
		}
	}
	o := s.failure(&partialError{text: "the stream broke off", err: err})
	if o.Verdict == task.Stalled || o.Verdict == task.Failed {
		o.Error += s.refused.String()
	}
	return o
}
