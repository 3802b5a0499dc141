package main

import (
	"fmt"
	"strings"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// paceWords say how fast a batch gets on, and how long it still takes: "1,204/s", "about 7m35s left".
func paceWords(p *ops.Pace, b *store.BatchInfo) []string {
	rate, ok := p.Rate()
	if !ok || b.EndedAt != nil {
		return nil
	}
	words := []string{ops.Speed(rate)}
	if left, ok := p.Left(b); ok {
		words = append(words, "about "+ops.Duration(left)+" left")
	}
	return words
}

// title names the batch and its state.
func (a *app) title(b *store.BatchInfo) string {
	const most = 40
	name := ""
	if b.Name != "" {
		name = fmt.Sprintf(" %q", ops.OneLine(b.Name, most))
	}
	return fmt.Sprintf("batch %d%s: %s", b.ID, name, a.batchState(b.State))
}

// notes are what else is to be said of where it stands.
func notes(b *store.BatchInfo) string {
	var notes []string
	if b.Operation != "" && b.EndedAt == nil {
		note := b.Operation
		if by := b.RequestedBy; by != "" {
			const most = 40
			note += ", by " + ops.OneLine(by, most)
		}
		notes = append(notes, note)
	}
	if ops.BatchOpen(b) {
		notes = append(notes, "open for more tasks")
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

// picture is what a terminal shows.
func (w *watching) picture(v *ops.BatchView) []string {
	b := v.BatchInfo
	done, of, _ := ops.BatchDone(b)
	share := ops.BatchShare(b)
	progress := append([]string{
		fmt.Sprintf("%s %6s", bar(share, w.screen.barWidth()), ops.Percent(share)), ops.Thousands(done) + " of " + ops.Thousands(of),
	}, paceWords(&v.Pace, b)...)
	lines := []string{w.app.title(b) + notes(b), strings.Join(progress, "  ")}
	if parts := countWords(b); len(parts) > 0 {
		lines = append(lines, wrapped(parts, w.screen.width-1)...)
	}
	return append(lines, failureLines(v.Failures)...)
}

// wrapped puts parts on as few lines as they fit on.
func wrapped(parts []string, width int) []string {
	var lines []string
	for _, part := range parts {
		if n := len(lines); n > 0 && len(lines[n-1])+2+len(part) <= width {
			lines[n-1] += "  " + part
			continue
		}
		lines = append(lines, part)
	}
	return lines
}

// line is what is printed of the batch now and then.
func (w *watching) line(v *ops.BatchView) string {
	b := v.BatchInfo
	far := "no tasks"
	if done, of, _ := ops.BatchDone(b); of > 0 {
		far = fmt.Sprintf("%s (%d of %d)", ops.Percent(ops.BatchShare(b)), done, of)
	}
	parts := append([]string{w.app.title(b) + notes(b), far}, paceWords(&v.Pace, b)...)
	return strings.Join(append(parts, countWords(b)...), ", ")
}

// countWords are the counts of tasks by state.
func countWords(b *store.BatchInfo) []string {
	var words []string
	for _, c := range ops.BatchCounts(b) {
		if c.N > 0 {
			words = append(words, ops.Thousands(c.N)+" "+c.Name)
		}
	}
	return words
}

// failureLines are the errors, the most frequent first.
func failureLines(groups []ops.FailureGroup) []string {
	const most = 160
	lines := make([]string, 0, len(groups))
	for _, g := range groups {
		lines = append(lines, fmt.Sprintf("%s × %s (as task %d)", ops.Thousands(g.N), ops.OneLine(g.Signature, most), g.Example))
	}
	return lines
}
