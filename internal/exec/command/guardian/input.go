package guardian

import (
	"errors"

	"golang.org/x/sys/unix"
)

// input takes records from standard input, which does not block.
type input struct{ buffer []byte }

// take reads once. more: there may be more to read at once. ended: nothing will ever come.
func (i *input) take() (records []record, more, ended bool) {
	n, err := unix.Read(0, i.buffer[len(i.buffer):cap(i.buffer)])
	switch {
	case errors.Is(err, unix.EINTR):
		return nil, true, false
	case errors.Is(err, unix.EAGAIN):
		return nil, false, false
	case err != nil || n == 0:
		return nil, false, true
	}
	rest := i.buffer[:len(i.buffer)+n]
	for ; len(rest) >= recordSize; rest = rest[recordSize:] {
		if r, err := parse(rest); err == nil { // an error: this cannot be, and what follows is as good as before
			records = append(records, r)
		}
	}
	i.buffer = i.buffer[:copy(i.buffer[:cap(i.buffer)], rest)]
	return records, true, false
}
