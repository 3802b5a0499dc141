package main

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/text"
)

// live is a line that changes: on a terminal it is drawn over, elsewhere each change is a line of its own.
type live struct {
	out   io.Writer
	width int // of the terminal; 0: it is none
	last  string
}

func (a *app) newLive() *live {
	l := &live{out: a.out}
	if a.terminal {
		const usual = 80 // where the terminal does not say
		if l.width = a.width(); l.width == 0 {
			l.width = usual
		}
	}
	return l
}

// show replaces the line.
func (l *live) show(line string) error {
	if line == l.last {
		return nil
	}
	l.last = line
	if l.width == 0 {
		_, err := fmt.Fprintln(l.out, line)
		return err
	}
	line = text.Snip(line, l.width-1, "…") // one that wraps cannot be drawn over
	_, err := fmt.Fprint(l.out, "\r\x1b[K"+line)
	return err
}

// end leaves the line as it stands, whole.
func (l *live) end() error {
	if l.width == 0 || l.last == "" {
		return nil
	}
	_, err := fmt.Fprintln(l.out, "\r\x1b[K"+l.last)
	return err
}
