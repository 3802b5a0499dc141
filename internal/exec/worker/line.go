package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/exec/envelope"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// MaxLine bounds a line on descriptor 3, in bytes. It leaves room for a result that is too long to be kept: such an attempt
// has succeeded all the same.
const MaxLine = 1 << 20

// Request writes an attempt as one line of standard input, line feed included: the envelope, with the trace context in
// its task. Only the last byte ends a line, by any reader's idea of one.
func Request(e *envelope.Envelope) ([]byte, error) {
	b, err := e.JSON()
	if err != nil {
		return nil, err
	}
	b = append(b[:len(b)-len("}}")], `,"traceparent":"`...)
	b = append(b, e.Traceparent()...)
	b = append(b, `"}}`...)
	return append(oneLine(b), '\n'), nil
}

// oneLine leaves nothing in a JSON document that some reader takes for the end of a line. Line feeds and carriage returns
// are white space between tokens there; U+2028 and U+2029, at which Node's readline ends a line too, stand in strings only.
func oneLine(doc []byte) []byte {
	for _, feed := range []byte("\n\r") {
		for rest := doc; ; {
			i := bytes.IndexByte(rest, feed)
			if i < 0 {
				break // mostly at once: this is faster than a loop over all bytes
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
	if !bytes.Contains(doc, []byte("\u2028")[:2]) { // what both begin with
		return doc
	}
	doc = bytes.ReplaceAll(doc, []byte("\u2028"), []byte(`\u2028`))
	return bytes.ReplaceAll(doc, []byte("\u2029"), []byte(`\u2029`))
}

// Kind is what a line on descriptor 3 is.
type Kind int

// The kinds of line.
const (
	Blank Kind = iota // nothing
	Ready             // the process can be given attempts
	Ping              // a sign of life of the running attempt
	Last              // the end of an attempt
)

// Line is a line on descriptor 3.
type Line struct {
	Kind Kind

	// ID and Fence name the attempt that the line is of. A ping need not name it: then Named is false. Every Last line does.
	ID    task.ID
	Fence task.Fence
	Named bool

	Ping    store.Ping   // of a Ping
	Outcome task.Outcome // of a Last line
}

// Of reports whether a line belongs to that attempt, or does not say to which it belongs.
func (l *Line) Of(id task.ID, fence task.Fence) bool {
	return !l.Named || l.ID == id && l.Fence == fence
}

// Error says why a line is none of the protocol's, and what to write instead.
type Error struct {
	Line   string // how it begins
	Reason string
	// Last: it was meant to end an attempt, so no other line will.
	Last bool
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Line) }

// examples of what is right, for errors.
const (
	lastExample = `{"id": 4211, "fence": 9, "result": …}`
	pingExample = `{"progress": 0.4}`
)

// Parse reads a line of descriptor 3, of at most MaxLine bytes, without its line feed. Its errors are *Error.
func Parse(line []byte) (Line, error) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return Line{}, nil
	}
	if l, ok := plainLast(line); ok { // mostly: it takes a fifth of the time of what follows
		return l, nil
	}
	return parse(line)
}

// parse reads any line that has something on it.
func parse(line []byte) (Line, error) {
	members, err := ping.Object("the line", line)
	if err != nil {
		return Line{}, refuse(line, false, "%s; a line on descriptor 3 is a JSON object, as %s or %s", err, pingExample, lastExample)
	}
	if ping.Ends(members) {
		return last(line, members)
	}
	var l Line
	if l.Named, err = l.name(members); err != nil {
		return Line{}, refuse(line, false, "%s", err)
	}
	if string(members["ready"]) == "true" {
		return Line{Kind: Ready}, nil
	}
	if l.Ping, err = ping.FromMembers(members); err != nil {
		return Line{}, refuse(line, false, "%s", err)
	}
	l.Kind = Ping
	return l, nil
}

// last reads the last line of an attempt.
func last(line []byte, members map[string]json.RawMessage) (Line, error) {
	l := Line{Kind: Last}
	named, err := l.name(members)
	switch {
	case err != nil:
		return Line{}, refuse(line, true, "%s", err)
	case !named:
		return Line{}, refuse(line, true, "the last line of an attempt must repeat the envelope's id and fence, as %s", lastExample)
	}
	l.Named = true
	if l.Outcome, err = ping.Ending(members, "the worker"); err != nil {
		return Line{}, refuse(line, true, "%s", err)
	}
	return l, nil
}

// name reads id and fence, and reports whether both are there.
func (l *Line) name(members map[string]json.RawMessage) (named bool, err error) {
	id, fence := members["id"], members["fence"]
	if !ping.Said(id) && !ping.Said(fence) {
		return false, nil
	}
	if !ping.Said(id) || !ping.Said(fence) {
		return false, fmt.Errorf("a line that names id or fence must name both, as %s", lastExample)
	}
	n, err := integer("id", id)
	if err != nil {
		return false, err
	}
	f, err := integer("fence", fence)
	if err != nil {
		return false, err
	}
	l.ID, l.Fence = task.ID(n), task.Fence(f)
	return true, nil
}

// integer reads a number as the envelope has it. Nothing is taken for one that is not written like it: a float64 has not
// enough digits for every id.
func integer(name string, raw json.RawMessage) (int64, error) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %s; repeat the number of the envelope's task, digit by digit", name, answer.Line(string(raw)))
	}
	return n, nil
}

func refuse(line []byte, last bool, format string, args ...any) error {
	const most = 200 // bytes of it that an error repeats
	return &Error{
		Line: task.Text(answer.Line(string(line[:min(len(line), most)])), most), Last: last, Reason: answer.Line(fmt.Sprintf(format, args...)),
	}
}
