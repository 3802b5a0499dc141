package ping

import "bytes"

// Lines cuts what comes in pieces into lines, and keeps what is not a whole line yet: at most its bound.
type Lines struct {
	Most int // bytes of a line; a longer one is dropped

	part     []byte
	dropping bool // the rest of a line that is too long
}

// Add takes in a piece and calls each for every line that it ends, without its line feed. A line that is too long is
// nil. A line is valid until each returns.
func (l *Lines) Add(piece []byte, each func(line []byte)) {
	for len(piece) > 0 {
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			l.keep(piece)
			return
		}
		line := piece[:end]
		piece = piece[end+1:]
		if l.dropping || len(l.part) > 0 {
			l.keep(line)
			line = l.part
		}
		if l.dropping || len(line) > l.Most {
			line = nil
		}
		l.dropping, l.part = false, l.part[:0]
		each(line)
		if cap(l.part) > idleLine {
			l.part = nil
		}
	}
}

// TooLong reports whether the line that has not ended yet is too long already.
func (l *Lines) TooLong() bool { return l.dropping }

// idleLine is how many bytes of room are kept between lines.
const idleLine = 4 << 10

// Rest gives what came after the last line feed, as if the line had ended there; false where there is nothing.
func (l *Lines) Rest() (line []byte, ok bool) {
	line, ok = l.part, len(l.part) > 0 || l.dropping
	if l.dropping {
		line = nil
	}
	l.part, l.dropping = nil, false
	return line, ok
}

// keep keeps a part of a line, or drops the line where it gets too long.
func (l *Lines) keep(part []byte) {
	if l.dropping || len(l.part)+len(part) > l.Most {
		l.dropping, l.part = true, nil
		return
	}
	l.part = append(l.part, part...)
}
