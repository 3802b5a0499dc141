package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// The exit codes.
const (
	exitWell      = 0
	exitFailed    = 1
	exitUsage     = 2
	exitDiffers   = 3 // what was to be verified is not so
	exitTask      = 4 // the awaited task or batch failed
	exitCancelled = 5 // it was cancelled, or the wait timed out
)

// app is what every command works with: the streams, how to print on them, and the flags that all commands share.
type app struct {
	cli *cli
	in  io.Reader
	out *os.File
	err *os.File

	guardian []string // starts this program as a guardian process; only main knows that it can be

	terminal bool // out is one
	watched  bool // err is a terminal
	colour   bool
}

func newApp(in io.Reader, out, err *os.File) *app {
	a := &app{cli: &cli{}, in: in, out: out, err: err}
	a.terminal, a.watched = isatty.IsTerminal(out.Fd()), isatty.IsTerminal(err.Fd())
	a.colour = a.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return a
}

// log makes the logger: text on a terminal, JSON otherwise, on stderr either way.
func (a *app) log() *slog.Logger {
	level, err := telemetry.ParseLevel(a.cli.LogLevel)
	if err != nil {
		level = slog.LevelInfo // the grammar lets no other pass
	}
	return telemetry.NewLogger(a.err, level, a.watched)
}

// width is how many columns the terminal has; 0 where it does not say, or is none.
func (a *app) width() int {
	size, err := unix.IoctlGetWinsize(int(a.out.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// tableWidth is how wide a table may be; 0: as wide as it is, since no terminal shows it.
func (a *app) tableWidth() int {
	if !a.terminal {
		return 0
	}
	const usual = 80 // where the terminal does not say
	return cmp.Or(a.width(), usual)
}

// failure is an error with an exit code of its own.
type failure struct {
	code int
	err  error // nil: everything has been said already
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit %d", f.code)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// usagef returns an error for a wrong use of the command.
func usagef(format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// fail says what went wrong, in one line where it is one thing, and gives the exit code.
func (a *app) fail(err error) int {
	if err == nil {
		return exitWell
	}
	if problems, ok := errors.AsType[*config.Problems](err); ok {
		// Nothing can be done about a stderr that does not take it.
		_ = problems.Write(a.err, a.watched && os.Getenv("NO_COLOR") == "", a.width())
		return exitUsage
	}
	var f *failure
	var input *store.InputError
	var schema *store.SchemaError
	var access *store.AccessError
	code := exitFailed
	switch {
	case errors.As(err, &f):
		code = f.code
		if f.err == nil {
			return code
		}
	case errors.As(err, &input):
		code = exitUsage
	case errors.As(err, &schema):
		err = schema // which says all that matters, the remedy with it
	case errors.As(err, &access):
		err = access
	}
	_, _ = fmt.Fprintln(a.err, "leasehold: "+ops.Printable(oneLine(err.Error())))
	return code
}

// oneLine folds what others wrote on several lines, as the Postgres driver does for each address that it tried. A line
// that the next one only repeats is left out.
func oneLine(text string) string {
	var folded string
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case last != "" && strings.HasPrefix(line, last):
			folded = strings.TrimSuffix(folded, last)
		case strings.HasSuffix(last, ":"):
			folded += " "
		case last != "":
			folded += "; "
		}
		folded += line
		last = line
	}
	return folded
}
