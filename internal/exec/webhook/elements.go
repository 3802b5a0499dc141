package webhook

import "github.com/leasehold/leasehold/internal/exec/ping"

// ndjson cuts a response into lines.
type ndjson struct{ ping.Lines }

func newLines() *ndjson { return &ndjson{ping.Lines{Most: maxLine}} }

// End is splitter's: a last line needs no line feed.
func (n *ndjson) End(each func(line []byte)) {
	if rest, ok := n.Rest(); ok {
		each(rest)
	}
}

// Ended is splitter's.
func (n *ndjson) Ended(eof bool) bool { return eof }

// elements cuts the elements out of a JSON array, after its opening bracket, that comes in pieces. It keeps what is not a whole
// element yet, at most its bound. What it finds need not be JSON.
type elements struct {
	most     int // bytes of an element; a longer one is dropped
	part     []byte
	dropping bool // the rest of an element that is too long
	depth    int  // of brackets and braces within the element
	quoted   bool // within a string
	escaped  bool // after a backslash in it
	closed   bool // the array has ended
}

// Add is splitter's.
func (e *elements) Add(piece []byte, each func(element []byte)) {
	from := 0
	for i, c := range piece {
		if e.closed {
			return
		}
		switch {
		case e.escaped:
			e.escaped = false
		case e.quoted:
			e.escaped, e.quoted = c == '\\', c != '"'
		case c == '"':
			e.quoted = true
		case c == '[' || c == '{':
			e.depth++
		case e.depth > 0 && (c == ']' || c == '}'):
			e.depth--
		case e.depth == 0 && (c == ',' || c == ']'):
			e.emit(piece[from:i], each)
			from = i + 1
			e.closed = c == ']'
		}
	}
	if !e.closed {
		e.keep(piece[from:])
	}
}

// End is splitter's. What is left of an array that is not closed is no element.
func (e *elements) End(func(element []byte)) {}

// Ended is splitter's.
func (e *elements) Ended(bool) bool { return e.closed }

// emit ends an element with its last part.
func (e *elements) emit(last []byte, each func(element []byte)) {
	if e.dropping || len(e.part) > 0 {
		e.keep(last)
		last = e.part
	}
	if e.dropping || len(last) > e.most {
		last = nil
	}
	e.part, e.dropping = e.part[:0], false
	each(last)
	if cap(e.part) > pieceSize {
		e.part = nil
	}
}

func (e *elements) keep(part []byte) {
	if e.dropping || len(e.part)+len(part) > e.most {
		e.dropping, e.part = true, nil
		return
	}
	e.part = append(e.part, part...)
}
