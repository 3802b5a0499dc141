// Package reason finds in what a failed command printed why it failed: the line that a person would look for, where an
// interpreter prints a page around it.
package reason

import (
	"slices"
	"strings"

	"github.com/leasehold/leasehold/internal/exec/answer"
)

// Of is why a command failed, as its output has it, on one line of at most answer.MaxLine bytes; "" where it printed
// nothing. That is its last line, unless that says nothing, or ends a stack trace: then what caused the trace comes first, and
// what else was said about it follows, because tables show the beginning.
func Of(output string) string {
	lines := strings.Split(strings.ReplaceAll(output, "\r\n", "\n"), "\n")
	var last trace
	for _, find := range []func([]string) trace{python, php, ruby, javaLike, goPanic, rust, perl} {
		if t := find(lines); t.cause != "" && t.end >= last.end {
			last = t
		}
	}
	if last.cause != "" {
		if after, ok := epilogue(lines[last.end+1:]); ok {
			return answer.Line(strings.Join(append(append([]string{last.cause}, last.more...), after...), "; "))
		}
	}
	return answer.Line(lastWords(lines))
}

// trace is a stack trace.
type trace struct {
	cause string   // why it is there; "": there is none
	more  []string // what else it says
	end   int      // index of its last line
}

// mostAfter is how many lines may follow a trace which still is why the command failed: "job failed", and the like.
const mostAfter = 3

// epilogue returns the lines after a trace, or false if they are too many for the trace to be the end.
func epilogue(rest []string) (lines []string, ok bool) {
	for _, line := range rest {
		if line = strings.TrimSpace(line); !empty(line) {
			lines = append(lines, line)
		}
		if len(lines) > mostAfter {
			return nil, false
		}
	}
	return lines, true
}

// lastWords is the last line that says something, else the last one that is not blank.
func lastWords(lines []string) string {
	blank := ""
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case !empty(line):
			return line
		case blank == "":
			blank = line
		}
	}
	return blank
}

// empty reports whether a line says nothing of why: it is punctuation, or what a program prints below any failure.
func empty(line string) bool {
	if !strings.ContainsFunc(line, func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r > 0x7f
	}) {
		return true
	}
	for _, prefix := range []string{
		"exit status ", "Node.js v", "note: run with `RUST_BACKTRACE", "note: Some details are omitted", "make: *** [", "make: Leaving directory",
		"npm ERR! A complete log", "npm error A complete log", "Stack trace:", "goroutine ", "... ",
	} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return frame.MatchString(line)
}
