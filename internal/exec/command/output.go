package command

import (
	"fmt"
	"unicode/utf8"

	"github.com/leasehold/leasehold/internal/task"
)

// output keeps the head and the tail of what is written to it, and counts the rest.
type output struct {
	head  []byte // the first bytes
	tail  []byte // a ring of what came after the head, once it is full
	next  int    // where in the ring the next byte goes
	total int64
}

// add takes bytes in.
func (o *output) add(p []byte) {
	o.total += int64(len(p))
	if room := task.MaxOutputPart - len(o.head); room > 0 {
		n := min(room, len(p))
		o.head = append(o.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > task.MaxOutputPart {
		p = p[len(p)-task.MaxOutputPart:]
	}
	if room := task.MaxOutputPart - len(o.tail); room > 0 {
		n := min(room, len(p))
		o.tail = append(o.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(o.tail[o.next:], p)
		o.next = (o.next + n) % task.MaxOutputPart
		p = p[n:]
	}
}

// String is head and tail, with a line between them that says what is missing.
func (o *output) String() string {
	tail := string(o.tail[o.next:]) + string(o.tail[:o.next])
	cut := o.total - int64(len(o.head)) - int64(len(tail))
	if cut == 0 {
		return task.Text(string(o.head)+tail, 2*task.MaxOutputPart)
	}
	head := task.Text(string(o.head), task.MaxOutputPart)
	tail = last(task.Text(tail, len(tail)*utf8.UTFMax), task.MaxOutputPart)
	return fmt.Sprintf("%s\n… %d bytes left out …\n%s", head, cut, tail)
}

// last gives at most the last most bytes of s and leaves no half rune at the start.
func last(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[len(s)-most:]
	for s != "" && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
