package stage

import (
	"fmt"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/mattn/go-isatty"
)

// Say prints a heading, with the time since the play began.
func (s *Stage) Say(format string, args ...any) {
	stamp := s.Paint(text.Faint, fmt.Sprintf("%5.1f s", time.Since(s.began).Seconds()))
	fmt.Printf("\n%s  %s\n", stamp, s.Paint(text.Bold, fmt.Sprintf(format, args...)))
}

// Line prints a line below a heading.
func (s *Stage) Line(format string, args ...any) {
	fmt.Printf("           "+format+"\n", args...)
}

// Paint colours text where there is colour.
func (s *Stage) Paint(c text.Color, t string) string {
	if !s.colour {
		return t
	}
	return c.Sprint(t)
}

// Mark is a tick where all is well, and a cross where it is not.
func (s *Stage) Mark(well bool) string {
	if well {
		return s.Paint(text.FgGreen, "✓")
	}
	return s.Paint(text.FgRed, "✗")
}

// Took is how long the play has taken so far.
func (s *Stage) Took() time.Duration { return time.Since(s.began).Round(100 * time.Millisecond) }

// Live reports whether lines may be drawn over: whether standard output is a terminal.
func Live() bool { return isatty.IsTerminal(os.Stdout.Fd()) }

// hasColour reports whether to use colour: on a terminal, unless NO_COLOR is set (https://no-color.org).
func hasColour() bool { return os.Getenv("NO_COLOR") == "" && Live() }
