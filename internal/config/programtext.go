package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// word is an argument as it is known at load: the text that it begins with, and whether a row adds to it.
type word struct {
	text string
	row  bool
	at   hcl.Range
}

// isOption reports whether a word begins with a dash and goes on. What only a row adds cannot make it one: see task.Argument.
func (w word) isOption() bool { return len(w.text) > 1 && w.text[0] == '-' || w.text == "-" && w.row }

// safeWay is in every refusal.
const safeWay = `; a row must never become program text. Pass it as an argument of its own, which the program reads as data: ` +
	`argv = ["sh", "-c", "resize \"$1\"", "sh", "${task.data.file}"]`

// argvScan looks for row data in argv that would be run.
type argvScan struct {
	words  []word
	refuse func(at hcl.Range, err error)
	seen   map[hcl.Range]bool
}

// refuseProgramText finds row data where it would decide what a command runs.
func refuseProgramText(words []word, refuse func(at hcl.Range, err error)) {
	if !slices.ContainsFunc(words, func(w word) bool { return w.row }) {
		return
	}
	s := &argvScan{words: words, refuse: refuse, seen: make(map[hcl.Range]bool)}
	s.program()
	for i := 1; i < len(words); i++ { // not all programs that start others are known
		name := programName(words[i].text)
		it, ok := interpreters()[name]
		if ok && !words[i].row && len(name) > 1 && it.text == 0 && (!it.plain || name == "su" || name == "runuser") {
			s.interpret(i, it, false)
		}
	}
}

func (s *argvScan) found(i int, format string, args ...any) {
	if at := s.words[i].at; !s.seen[at] {
		s.seen[at] = true
		s.refuse(at, errors.New(fmt.Sprintf(format, args...)+safeWay))
	}
}

// program follows the programs that start one another from argv[0] on.
func (s *argvScan) program() {
	for i := 0; i < len(s.words); {
		if s.words[i].row {
			if i > 0 { // argv[0] has an error of its own
				s.found(i, "the program that %s starts must be fixed text; a row cannot choose it", s.words[0].text)
			}
			return
		}
		name := programName(s.words[i].text)
		if it, ok := interpreters()[name]; ok {
			s.interpret(i, it, true)
		}
		w, ok := wrappers()[name]
		if !ok {
			return
		}
		i = s.started(i, w)
	}
}

// started is where the program stands that the wrapper at i starts.
func (s *argvScan) started(i int, w wrapper) int {
	name, operands, options := s.words[i].text, w.operands, true
	for i++; i < len(s.words); i++ {
		word := s.words[i]
		before, _, assigned := strings.Cut(word.text, "=")
		switch {
		case options && word.text == "--" && !word.row:
			options = false
		case options && (word.isOption() || word.text == "-"):
			i = s.wrapperOption(i, name, w)
		case w.assigns && assigned:
			if word.row && choosesPrograms(before) {
				s.found(i, "%s decides which programs run or load, so row data must not set it", before)
			}
		case operands > 0:
			operands--
		default:
			return i
		}
	}
	return i
}

// wrapperOption looks at an option of a wrapper, and gives the index of its last word.
func (s *argvScan) wrapperOption(i int, name string, w wrapper) int {
	word := s.words[i]
	text := word.text
	if long, ok := strings.CutPrefix(text, "--"); ok {
		option, _, has := strings.Cut(long, "=")
		switch {
		case w.code != "" && (option == "split-string" || option == "command"):
			return s.run(i, has, name, "--"+option)
		case slices.Contains(w.long, option) && !has:
			return i + 1
		case word.row && !has:
			s.found(i, "a row must not choose options of %s", name)
		}
		return i
	}
	for k := 1; k < len(text); k++ {
		switch end := k+1 == len(text) && !word.row; {
		case strings.IndexByte(w.code, text[k]) >= 0:
			return s.run(i, !end, name, text[:k+1])
		case strings.IndexByte(w.value, text[k]) >= 0:
			if end {
				i++
			}
			return i
		}
	}
	if word.row {
		s.found(i, "a row must not choose options of %s", name)
	}
	return i
}

// run refuses row data in the value of an option, which is attached to the option's own word or is the next one. It gives
// the index of the value's word.
func (s *argvScan) run(i int, attached bool, name, option string) int {
	if !attached {
		i++
	}
	if i < len(s.words) && s.words[i].row {
		s.found(i, "%s runs what stands after %s, and a row would add to it", name, option)
	}
	return i
}

// reading is how far the words of an interpreter have been looked at.
type reading struct {
	interpreter
	name     string
	certain  bool // it is the program, and not only an argument of that name
	options  bool // options may still come
	given    bool // the program came in an option
	run      bool // as of a shell: the first operand is the program
	operands int
	over     bool // what follows is data
}

// interpret looks at the words after an interpreter.
func (s *argvScan) interpret(i int, it interpreter, certain bool) {
	r := &reading{interpreter: it, name: s.words[i].text, certain: certain, options: true}
	for i++; i < len(s.words) && !r.over; i++ {
		w := s.words[i]
		switch {
		case r.options && w.text == "--" && !w.row:
			r.options = false
		case r.options && strings.HasPrefix(w.text, "--"):
			i = s.longOption(i, r)
		case r.options && w.isOption() && r.singleDash(w.text):
			i, r.given = s.run(i, false, r.name, w.text), true
		case r.options && (w.isOption() || it.later && strings.HasPrefix(w.text, "+")):
			i = s.letters(i, r)
		case !w.row && r.operands == 0 && slices.Contains(it.next, w.text):
			if w.text == "eval" {
				r.text = 1
			}
		default:
			s.operand(i, r)
		}
	}
}

// singleDash reports whether a word is a long option with one dash, as -Command of PowerShell and -eval of erl are.
func (r *reading) singleDash(text string) bool {
	option := strings.ToLower(text[1:])
	return r.code == "" && option != "" &&
		slices.ContainsFunc(r.long, func(l string) bool { return strings.HasPrefix(l, option) })
}

func (s *argvScan) longOption(i int, r *reading) int {
	w := s.words[i]
	option, _, has := strings.Cut(w.text[2:], "=")
	switch {
	case slices.Contains(r.long, option):
		r.given = true
		return s.run(i, has, r.name, "--"+option)
	case option == "file" && r.text > 0: // the program is in a file
		r.given = true
		if !has {
			i++
		}
	case w.row && !has && (r.certain || r.run):
		s.found(i, "a row must not choose options of %s", r.name)
	}
	return i
}

// letters looks at a word of options of one letter each, and gives the index of the last word that belongs to it.
func (s *argvScan) letters(i int, r *reading) int {
	w := s.words[i]
	for k := 1; k < len(w.text); k++ {
		c, end := w.text[k], k+1 == len(w.text) && !w.row
		switch {
		case r.later && c == 'c':
			r.run = true
		case r.later && c == 's' && !r.run: // its script comes by standard input
			r.over = true
		case strings.IndexByte(r.code, c) >= 0 && !r.later:
			r.given, r.over = true, strings.IndexByte(r.ends, c) >= 0
			return s.run(i, !end, r.name, w.text[:k+1])
		case strings.IndexByte(r.value, c) >= 0:
			r.given = r.given || c == 'f' && r.text == 1 // the program is in a file
			if end {
				i++
			}
			return i
		case c == 'i' && !r.later: // of perl, ruby and sed: what follows is added to the names of files
			return i
		}
	}
	if w.row && (r.certain || r.run) {
		s.found(i, "a row must not choose options of %s", r.name)
	}
	return i
}

func (s *argvScan) operand(i int, r *reading) {
	row := s.words[i].row
	r.operands++
	if !r.plain {
		r.options = false
	}
	switch {
	case r.run:
		if row {
			s.found(i, "%s runs what stands after -c, and a row would add to it", r.name)
		}
		r.over = true
	case r.plain:
	case r.given && !r.whole:
		r.over = true
	case r.text > 0:
		if row && r.operands >= r.text && (r.certain || r.text == 1) {
			s.found(i, "%s runs it, and a row would add to it", r.name)
		}
		r.over = r.operands >= r.text && !r.whole
	default:
		if row && r.certain {
			s.found(i, "%s runs the file that it names, and a row would choose it", r.name)
		}
		r.over = true
	}
}
