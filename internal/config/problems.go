package config

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// maxProblems is how many problems are shown; a file of noise has as many as it has lines.
const maxProblems = 50

// maxLine is the longest line of a file whose lines are shown, in bytes.
const maxLine = 4 << 10

// Problems is everything that is wrong with a configuration.
type Problems struct {
	diags hcl.Diagnostics
	files map[string]*hcl.File // with secrets masked
	more  int                  // beyond maxProblems
}

// Error is the first problem on one line, and how many more there are.
func (p *Problems) Error() string {
	first := p.diags[0]
	text := first.Summary + "; " + first.Detail
	if first.Subject != nil {
		text = fmt.Sprintf("%s:%d: %s", first.Subject.Filename, first.Subject.Start.Line, text)
	}
	if n := p.Count() - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// Count is how many problems there are.
func (p *Problems) Count() int { return len(p.diags) + p.more }

// Write prints every problem with its file, line and source line. A width of 0 does not wrap. Literal secrets in the
// source lines are masked.
func (p *Problems) Write(w io.Writer, color bool, width int) error {
	out := hcl.NewDiagnosticTextWriter(w, p.files, uint(max(width, 0)), color)
	if err := out.WriteDiagnostics(p.diags); err != nil {
		return fmt.Errorf("write the configuration's problems: %w", err)
	}
	if p.more > 0 {
		if _, err := fmt.Fprintf(w, "And %d more problems.\n\n", p.more); err != nil {
			return fmt.Errorf("write the configuration's problems: %w", err)
		}
	}
	return nil
}

// problem is a mistake at a place.
func problem(at hcl.Range, summary, format string, args ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: at.Ptr(),
	}
}

// fail notes a mistake.
func (l *loader) fail(at hcl.Range, summary, format string, args ...any) {
	l.diags = append(l.diags, problem(at, summary, format, args...))
}

// failNowhere notes a mistake that stands in no file.
func (l *loader) failNowhere(summary, format string, args ...any) {
	d := problem(hcl.Range{}, summary, format, args...)
	d.Subject = nil
	l.diags = append(l.diags, d)
}

// take notes what HCL found wrong. Its context is dropped: the writer would print values of variables from it.
func (l *loader) take(diags hcl.Diagnostics) (failed bool) {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		clean := *d
		clean.Expression, clean.EvalContext, clean.Extra = nil, nil, nil
		clean.Detail = withoutOperand(clean.Detail)
		if f, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallUnknownDiagExtra](d); ok {
			name := f.CalledFunctionNamespace() + f.CalledFunctionName()
			clean.Detail = fmt.Sprintf("There is no function %q.%s The functions are %s.",
				name, didYouMean(name, functionNames()), strings.Join(functionNames(), ", "))
		}
		l.diags = append(l.diags, &clean)
		failed = true
	}
	return failed
}

// withoutOperand takes the name of operandFunction, which no file called, out of HCL's text.
func withoutOperand(detail string) string {
	return strings.TrimPrefix(detail, fmt.Sprintf("Call to function %q failed: ", operandName))
}

// problems gives what was noted, in the order of files and lines; nil where nothing was.
func (l *loader) problems() *Problems {
	if len(l.diags) == 0 {
		return nil
	}
	slices.SortStableFunc(l.diags, func(a, b *hcl.Diagnostic) int {
		switch {
		case a.Subject == nil || b.Subject == nil:
			return boolOrder(a.Subject != nil, b.Subject != nil)
		case a.Subject.Filename != b.Subject.Filename:
			return l.order[a.Subject.Filename] - l.order[b.Subject.Filename]
		}
		return a.Subject.Start.Byte - b.Subject.Start.Byte
	})
	diags := slices.CompactFunc(l.diags, func(a, b *hcl.Diagnostic) bool {
		samePlace := a.Subject != nil && b.Subject != nil && *a.Subject == *b.Subject
		return samePlace && a.Summary == b.Summary && a.Detail == b.Detail
	})
	p := &Problems{diags: diags, files: make(map[string]*hcl.File)}
	if len(diags) > maxProblems {
		p.diags, p.more = diags[:maxProblems], len(diags)-maxProblems
	}
	for name, src := range l.text {
		if longestLine(src) > maxLine {
			continue // the problems name the place; such a line is not read
		}
		p.files[name] = &hcl.File{Bytes: l.masked(name, src)}
	}
	return p
}

func longestLine(src []byte) int {
	longest := 0
	for line := range bytes.Lines(src) {
		longest = max(longest, len(line))
	}
	return longest
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// masked is a source with its literal secrets starred out and without control characters, which a terminal would obey.
func (l *loader) masked(name string, src []byte) []byte {
	out := bytes.Clone(src)
	for _, r := range l.masks[name] {
		for i := r.Start.Byte; i < r.End.Byte && i < len(out); i++ {
			if out[i] != '\n' && out[i] != '"' {
				out[i] = '*'
			}
		}
	}
	for i := 0; i < len(out); {
		r, size := utf8.DecodeRune(out[i:])
		obeyed := unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) || unicode.Is(unicode.Bidi_Control, r)
		if obeyed || size == 1 && out[i] >= 0x80 && out[i] < 0xa0 {
			for k := range size { // the ranges of problems count bytes
				out[i+k] = '?'
			}
		}
		i += size
	}
	return out
}
