package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
)

// folder breaks lines between words so that they fit on a terminal. What follows in a line that was broken stands under its last column, or is
// indented.
type folder struct {
	out   io.Writer
	width int
	rest  []byte // of a line that has not ended
}

// Write breaks the lines that have ended.
func (f *folder) Write(p []byte) (int, error) {
	f.rest = append(f.rest, p...)
	end := bytes.LastIndexByte(f.rest, '\n') + 1
	var b strings.Builder
	for line := range strings.Lines(string(f.rest[:end])) {
		b.WriteString(foldLine(strings.TrimSuffix(line, "\n"), f.width))
		b.WriteByte('\n')
	}
	f.rest = f.rest[end:]
	if _, err := io.WriteString(f.out, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes what is left without an end of line.
func (f *folder) flush() error {
	_, err := io.WriteString(f.out, foldLine(string(f.rest), f.width))
	f.rest = nil
	return err
}

// unfolded is the writer below: for what has to stay as it is, such as commands to paste and what a task has printed.
func unfolded(w io.Writer) io.Writer {
	if f, ok := w.(*folder); ok {
		return f.out
	}
	return w
}

// leastWidth is the least width that lines are broken for: narrower terminals break them themselves.
const leastWidth = 20

// people has f write for people: on a terminal no line is wider than that.
func (a *app) people(f func(io.Writer) error) error {
	width := a.tableWidth()
	if width == 0 {
		return f(a.out)
	}
	w := &folder{out: a.out, width: max(width, leastWidth)}
	if err := f(w); err != nil {
		return err
	}
	return w.flush()
}

// colours are the only escape sequences that lines have.
var (
	colours = regexp.MustCompile("^\x1b\\[[0-9]*m")
	gap     = regexp.MustCompile(`\S {2,}`)
)

// foldLine breaks one line into those of at most width columns.
func foldLine(line string, width int) string {
	if text.StringWidthWithoutEscSequences(line) <= width {
		return line
	}
	return foldAt(line, width, strings.Repeat(" ", hangOf(line, width)))
}

// foldAt breaks one line into those of at most width columns, which begin with hang but for the first.
func foldAt(line string, width int, hang string) string {
	var b strings.Builder
	for {
		head, tail := breakAt(line, width)
		b.WriteString(strings.TrimRight(head, " "))
		tail = strings.TrimLeft(tail, " ")
		if tail == "" {
			return b.String()
		}
		b.WriteByte('\n')
		line = hang + tail
	}
}

// hangOf is how far the rest of a line is indented: to its last column, where that begins in the left half, else a little further than the line.
func hangOf(line string, width int) int {
	const further = 4
	indent := len(line) - len(strings.TrimLeft(line, " "))
	hang := indent + further
	for _, m := range gap.FindAllStringIndex(line, -1) {
		if at := text.StringWidthWithoutEscSequences(line[:m[1]]); at <= width/2 {
			hang = at
		}
	}
	return min(hang, width/2)
}

// breakAt breaks a line behind the last space within width columns, else in the middle of a word.
func breakAt(line string, width int) (head, tail string) {
	at, space, wide, begun := len(line), 0, 0, false
	for i := 0; i < len(line); {
		if code := colours.FindString(line[i:]); code != "" {
			i += len(code)
			continue
		}
		r, size := utf8.DecodeRuneInString(line[i:])
		if wide += text.RuneWidth(r); wide > width {
			at = i
			break
		}
		if r == ' ' && begun {
			space = i
		}
		begun = begun || r != ' '
		i += size
	}
	if at == len(line) {
		return line, ""
	}
	if line[at] == ' ' {
		return line[:at], line[at:]
	}
	// A word that takes most of a line is broken, so that the line before it is not all but empty.
	if space > 0 && text.StringWidthWithoutEscSequences(line[space:at]) < width/2 {
		at = space
	}
	return line[:at], line[at:]
}
