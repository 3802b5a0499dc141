// Package console plays what the documentation shows: it writes the files of a page, runs its commands, and compares what they print with what
// the page says they print.
//
// A fenced block whose info string has a second word is a file: "hcl leasehold.hcl" is written, "hcl +leasehold.hcl" is appended to it. A block
// "console" is a terminal: a line that begins with "$ " is a command, and those up to the next are what it prints. A block "console NAME" is
// another terminal, whose one command goes on while the page does; it is interrupted at the end, and "agent" has to exit with 0. A block
// "console install" fetches packages, which a test has already: it is not run, and Setting.Install is in its place. In what is printed,
// "…" stands for anything on its line, and alone on a line for any number of lines. The command `echo $?` prints the status of the one before
// it; without it that has to be 0.
package console

import (
	"fmt"
	"regexp"
	"strings"
)

// step is a file to write, or a command to run.
type step struct {
	line     int    // of the page
	file     string // "": it is a command
	add      bool   // to the file, not in place of it
	text     string // of the file, or the command
	terminal string // "": the first one, whose commands end before the next one begins
	want     []string
}

// document returns the steps of a page.
func document(page string) (steps []step, err error) {
	var block *step // the file that is being read
	var in string   // the info string of the block that is being read
	open := false
	for i, line := range strings.Split(page, "\n") {
		switch {
		case !open && strings.HasPrefix(line, "```"):
			open, in, block = true, strings.TrimPrefix(line, "```"), nil
			if lang, name, ok := strings.Cut(in, " "); ok && lang != "console" {
				block = &step{line: i + 1, file: strings.TrimPrefix(name, "+"), add: strings.HasPrefix(name, "+")}
			}
		case open && line == "```":
			open = false
			if block != nil {
				steps = append(steps, *block)
			}
		case open && block != nil:
			block.text += line + "\n"
		case open && (in == "console" || strings.HasPrefix(in, "console ")):
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, step{line: i + 1, text: command, terminal: strings.TrimPrefix(strings.TrimPrefix(in, "console"), " ")})
				continue
			}
			if len(steps) == 0 || steps[len(steps)-1].file != "" {
				return nil, fmt.Errorf("line %d: output without a command", i+1)
			}
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		}
	}
	if open {
		return nil, fmt.Errorf("a block is not closed: %q", in)
	}
	return steps, nil
}

// pattern matches what a command should print. whole: and nothing else.
func pattern(want []string, whole bool) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i, line := range want {
		if line == "…" {
			b.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		parts := strings.Split(strings.TrimRight(line, " "), "…")
		for k := range parts {
			parts[k] = regexp.QuoteMeta(parts[k])
		}
		b.WriteString(strings.Join(parts, `[^\n]*?`) + ` *`)
		if i < len(want)-1 || whole {
			b.WriteString(`\n`)
		}
	}
	if whole {
		b.WriteString(`\z`)
	}
	return regexp.MustCompile(b.String())
}
