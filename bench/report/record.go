package report

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// The marks between which a document has what was measured.
const (
	from = "<!-- measured: make bench RECORD=docs/performance.md writes from here -->\n"
	to   = "<!-- to here -->\n"
)

// Markdown writes what was measured for a document: the targets, and the most significant measures of each scenario.
func Markdown(about string, b *Book, targets []Target) string {
	var text strings.Builder
	text.WriteString(about + ".\n")
	if t, _ := verdicts(b, targets); len(t) > 1 {
		text.WriteString("\n" + t.markdown())
	}
	minor := []string{"seconds", "body_bytes", "run_wal_bytes_per_row", "insert_wal_bytes_per_row"}
	for _, t := range b.tables(func(measure string) bool { return !slices.Contains(minor, measure) }) {
		text.WriteString("\n" + t.markdown())
	}
	return text.String()
}

// Record puts text between the marks of a document, in place of what stands there.
func Record(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, began := bytes.Cut(old, []byte(from))
	_, after, ended := bytes.Cut(rest, []byte(to))
	if !began || !ended {
		return fmt.Errorf("%s does not have the lines %q and %q", path, strings.TrimSpace(from), strings.TrimSpace(to))
	}
	return os.WriteFile(path, slices.Concat(before, []byte(from), []byte("\n"+text+"\n"), []byte(to), after), 0o600)
}
