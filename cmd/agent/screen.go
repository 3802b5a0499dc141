package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"
)

// screen is a few lines that change: on a terminal they are drawn over, elsewhere each change is written below the one
// before.
type screen struct {
	out   io.Writer
	width int // of the terminal; 0: it is none
	drawn int // lines that stand there
}

// newScreen writes to one of the program's streams, which is a terminal or not.
func (a *app) newScreen(out *os.File, terminal bool) *screen {
	s := &screen{out: out}
	if terminal && os.Getenv("TERM") != "dumb" {
		const usual = 80 // where the terminal does not say
		s.width = usual
		if size, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			s.width = int(size.Col)
		}
	}
	return s
}

// draw replaces the lines.
func (s *screen) draw(lines []string) error {
	if s.width == 0 {
		if len(lines) == 0 {
			return nil
		}
		_, err := fmt.Fprintln(s.out, strings.Join(lines, "\n"))
		return err
	}
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	b.WriteString("\r\x1b[J") // and all that is below
	for _, line := range lines {
		b.WriteString(text.Snip(line, s.width-1, "…") + "\n") // one that wraps cannot be drawn over
	}
	s.drawn = len(lines)
	_, err := io.WriteString(s.out, b.String())
	return err
}

// barWidth is how wide a bar may be beside what stands in its line.
func (s *screen) barWidth() int {
	const words, most, least = 50, 40, 10
	return min(max(s.width-words, least), most)
}

// bar draws a share, 0 to 1.
func bar(share float64, width int) string {
	full := min(max(int(share*float64(width)), 0), width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}
