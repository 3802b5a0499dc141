package reason

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// frame is a line of a stack: "at f (a.js:1:2)", "#0 {main}", "from a.rb:1:in `f'", "thrown in a.php on line 5".
	frame = regexp.MustCompile(`^(at \S|#\d+ |from \S+:\d+:in |thrown in .* on line \d+$|\.\.\. \d+ (more|lines))`)

	pythonName = regexp.MustCompile(`^[\w.]+(:|$)`)
	phpHeader  = regexp.MustCompile(`^(?:PHP )?((?:Fatal|Parse|Recoverable fatal|Catchable fatal) error: +.*)$`)
	rubyHeader = regexp.MustCompile(`^(\S.*:\d+:in .*?): (.* \([A-Z][\w:]*\))$`)
	errorName  = regexp.MustCompile(`^(?:Uncaught |Unhandled exception\. |Exception in thread "[^"]*" )?` +
		`([\w.$]*(?:Error|Exception|Throwable)[\w.$]*(?: \[\w+\])?(?:: .*|$))`)
	causedBy    = regexp.MustCompile(`^(?:Caused by: |\[cause\]: | ?---> )(.*)$`)
	rustHeader  = regexp.MustCompile(`^thread '.*' (?:\(\d+\) )?panicked at (.*?):?$`)
	rustOld     = regexp.MustCompile(`^thread '.*' panicked at '(.*)', \S+:\d+:\d+$`)
	perlMessage = regexp.MustCompile(` at \S+ line \d+\.$`)
)

const pythonStart = "Traceback (most recent call last):"

func indented(line string) bool { return strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") }

// python finds the last traceback, and the one that was its direct cause.
func python(lines []string) (t trace) {
	direct := false
	for i, line := range lines {
		switch strings.TrimSpace(line) {
		case "The above exception was the direct cause of the following exception:":
			direct = true
			continue
		case "During handling of the above exception, another exception occurred:":
			continue
		case pythonStart:
		default:
			continue
		}
		j := i + 1
		for j < len(lines) && (indented(lines[j]) || lines[j] == "") {
			j++
		}
		if j == len(lines) || !pythonName.MatchString(lines[j]) {
			continue
		}
		next := trace{cause: lines[j], end: j}
		for next.end+1 < len(lines) && indented(lines[next.end+1]) { // of a message of several lines
			next.end++
			next.more = append(next.more, strings.TrimSpace(lines[next.end]))
		}
		if direct {
			next.more = slices.Concat(t.more, []string{next.cause}, next.more)
			next.cause = t.cause
		}
		t, direct = next, false
	}
	return t
}

// php finds the last fatal error, and what its exception led to.
func php(lines []string) (t trace) {
	for i, line := range lines {
		found := phpHeader.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil {
			continue
		}
		_, text, _ := strings.Cut(found[1], " error:")
		if !strings.HasPrefix(found[1], "Fatal") {
			text = found[1]
		}
		t = trace{cause: strings.TrimPrefix(strings.TrimSpace(text), "Uncaught "), end: i}
		for j := i + 1; j < len(lines); j++ {
			below := strings.TrimSpace(lines[j])
			if phpHeader.MatchString(below) {
				break
			}
			if next, ok := strings.CutPrefix(below, "Next "); ok {
				t.more, t.end = append(t.more, next), j
			}
			if below == "Stack trace:" || frame.MatchString(below) {
				t.end = j
			}
		}
	}
	return t
}

// ruby finds the last exception; what caused it is printed below.
func ruby(lines []string) (t trace) {
	for i, line := range lines {
		found := rubyHeader.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		next := trace{cause: found[2] + ", " + found[1], end: i}
		if t.cause != "" && t.end == i-1 && t.end > 0 && indented(lines[t.end]) {
			next.more = append([]string{t.cause}, t.more...)
		}
		for next.end+1 < len(lines) && indented(lines[next.end+1]) {
			next.end++
		}
		t = next
	}
	return t
}

// javaLike finds the last exception whose stack is lines of "at …": Java's, JavaScript's, .NET's.
func javaLike(lines []string) (t trace) {
	for i, line := range lines {
		text := strings.TrimSpace(line)
		if found := causedBy.FindStringSubmatch(text); found != nil && t.cause != "" {
			t.more = append([]string{t.cause}, t.more...)
			t.cause, t.end = found[1], i
			continue
		}
		if strings.HasPrefix(text, "at ") && indented(line) {
			if header, ok := headerAbove(lines, i); ok && (t.cause == "" || i-1 > t.end) {
				t = trace{cause: header}
			}
			if t.cause != "" {
				t.end = i
			}
			continue
		}
		if t.cause != "" && t.end == i-1 && (indented(line) || text == "}" || frame.MatchString(text)) {
			t.end = i // "... 3 more", and the properties of an error of JavaScript's
		}
	}
	return t
}

// headerAbove finds what a stack is of whose first line is the one with that index: the first of the lines above it, up to
// a blank one, that names an error.
func headerAbove(lines []string, at int) (header string, ok bool) {
	const most = 20 // lines of a message
	for i := at - 1; i >= 0 && at-i <= most; i-- {
		text := strings.TrimSpace(lines[i])
		if text == "" || frame.MatchString(text) {
			break
		}
		if found := errorName.FindStringSubmatch(text); found != nil {
			header, ok = found[1], true
		}
	}
	return header, ok
}

// goPanic finds the last panic or fatal error of Go's runtime.
func goPanic(lines []string) (t trace) {
	for i, line := range lines {
		if !strings.HasPrefix(line, "panic: ") && !strings.HasPrefix(line, "fatal error: ") {
			continue
		}
		rest := lines[i+1:]
		first := slices.IndexFunc(rest, func(l string) bool { return strings.HasPrefix(l, "goroutine ") })
		if first < 0 || first > 30 {
			continue
		}
		t = trace{cause: line, end: i + 1 + first}
		for t.end+1 < len(lines) && goStack(lines, t.end+1) {
			t.end++
		}
	}
	return t
}

// goStack reports whether a line belongs to a stack of Go's.
func goStack(lines []string, i int) bool {
	line := lines[i]
	switch {
	case line == "", strings.HasPrefix(line, "\t"), strings.HasPrefix(line, "goroutine "), strings.HasPrefix(line, "created by "):
		return true
	}
	return i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\t") && strings.Contains(lines[i+1], ".go:")
}

// rust finds the last panic.
func rust(lines []string) (t trace) {
	for i, line := range lines {
		if found := rustOld.FindStringSubmatch(line); found != nil {
			t = trace{cause: found[1], end: i}
		} else if found := rustHeader.FindStringSubmatch(line); found != nil && i+1 < len(lines) && strings.TrimSpace(lines[i+1]) != "" {
			t = trace{cause: lines[i+1], more: []string{"panicked at " + found[1]}, end: i + 1}
		} else {
			continue
		}
		for t.end+1 < len(lines) && (indented(lines[t.end+1]) || strings.HasPrefix(lines[t.end+1], "stack backtrace:")) {
			t.end++
		}
	}
	return t
}

// perl finds the last message of die with a stack (Carp).
func perl(lines []string) (t trace) {
	for i, line := range lines {
		if perlMessage.MatchString(line) && i+1 < len(lines) && strings.Contains(lines[i+1], " called at ") {
			t = trace{cause: line, end: i + 1}
			for t.end+1 < len(lines) && strings.Contains(lines[t.end+1], " called at ") {
				t.end++
			}
		}
	}
	return t
}
