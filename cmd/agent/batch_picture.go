package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
)

// pace is how fast a batch gets on, over the last half minute.
type pace struct {
	back bool // it is being undone: another count than before
	seen []sample
}

type sample struct {
	at   time.Time
	done int64
}

// paceOver is how long a pace looks back.
const paceOver = 30 * time.Second

// gone is how many tasks are done, of how many: forward those that have ended, and backward those that were undone, or
// called off.
func gone(b *ops.BatchInfo) (done, of int64, back bool) {
	if b.State != ops.BatchRollingBack {
		return b.Total - b.Live, b.Total, false
	}
	done = b.RolledBack + b.RollbackFailed + b.Cancelled
	if b.Operation != "" { // it has yet to come to some
		return done, b.Total, true
	}
	return done, done + b.Live, true
}

// add takes in what was seen.
func (p *pace) add(b *ops.BatchInfo, at time.Time) {
	done, _, back := gone(b)
	if n := len(p.seen); n > 0 && (back != p.back || done < p.seen[n-1].done) { // undone, or retried
		p.seen = nil
	}
	p.back = back
	p.seen = append(p.seen, sample{at, done})
	for len(p.seen) > 2 && at.Sub(p.seen[1].at) > paceOver {
		p.seen = p.seen[1:]
	}
}

// rate is tasks a second; ok is false while too little has been seen.
func (p *pace) rate() (perSecond float64, ok bool) {
	const least = time.Second
	if len(p.seen) < 2 {
		return 0, false
	}
	first, last := p.seen[0], p.seen[len(p.seen)-1]
	if took := last.at.Sub(first.at); took >= least {
		return float64(last.done-first.done) / took.Seconds(), true
	}
	return 0, false
}

// words say how fast it gets on, and how long it still takes: "1,204/s", "about 7m35s left".
func (p *pace) words(b *ops.BatchInfo) []string {
	rate, ok := p.rate()
	if !ok || b.EndedAt != nil {
		return nil
	}
	words := []string{speed(rate)}
	done, of, _ := gone(b)
	if left := float64(of-done) / rate; rate > 0 && of > done && b.Sealed && left < float64(maxDays*24*time.Hour/time.Second) {
		words = append(words, "about "+ops.Duration(time.Duration(left*float64(time.Second)).Round(time.Second))+" left")
	}
	return words
}

// speed writes tasks a second; a slow one is told by the minute.
func speed(perSecond float64) string {
	const few, minute = 1, 60
	if perSecond > 0 && perSecond < few {
		return fmt.Sprintf("%.1f/min", perSecond*minute)
	}
	return thousands(int64(perSecond)) + "/s"
}

// title names the batch and its state.
func (w *watching) title() string {
	const most = 40
	b := w.last
	name := ""
	if b.Name != "" {
		name = fmt.Sprintf(" %q", ops.OneLine(b.Name, most))
	}
	return fmt.Sprintf("batch %d%s: %s", b.ID, name, w.app.batchState(b.State))
}

// notes are what else is to be said of where it stands.
func (w *watching) notes() string {
	b := w.last
	var notes []string
	if b.Operation != "" && b.EndedAt == nil {
		note := b.Operation
		if by := b.RequestedBy; by != "" {
			const most = 40
			note += ", by " + ops.OneLine(by, most)
		}
		notes = append(notes, note)
	}
	if !b.Sealed && b.EndedAt == nil {
		notes = append(notes, "open for more tasks")
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

// picture is what a terminal shows.
func (w *watching) picture() []string {
	b := w.last
	done, of, _ := gone(b)
	share := 0.0
	if of > 0 {
		share = float64(done) / float64(of)
	} else if b.EndedAt != nil {
		share = 1
	}
	progress := append([]string{
		fmt.Sprintf("%s %6s", bar(share, w.screen.barWidth()), percent(&share)), thousands(done) + " of " + thousands(of),
	}, w.pace.words(b)...)
	lines := []string{w.title() + w.notes(), strings.Join(progress, "  ")}
	if parts := countWords(b); len(parts) > 0 {
		lines = append(lines, wrapped(parts, w.screen.width-1)...)
	}
	return append(lines, failureLines(w.failures)...)
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

// line is what is told of the batch now and then.
func (w *watching) line() string {
	b := w.last
	done, of, _ := gone(b)
	far := "no tasks"
	if of > 0 {
		share := float64(done) / float64(of)
		far = fmt.Sprintf("%s (%d of %d)", percent(&share), done, of)
	}
	parts := append([]string{w.title() + w.notes(), far}, w.pace.words(b)...)
	return strings.Join(append(parts, countWords(b)...), ", ")
}

// countWords tell how many tasks stand where.
func countWords(b *ops.BatchInfo) []string {
	var words []string
	for _, c := range tallies(b) {
		if c.n > 0 {
			words = append(words, thousands(c.n)+" "+c.name)
		}
	}
	return words
}

// failureLines tell what went wrong, the commonest first.
func failureLines(groups []ops.FailureGroup) []string {
	const most = 160
	lines := make([]string, 0, len(groups))
	for _, g := range groups {
		lines = append(lines, fmt.Sprintf("%s × %s (as task %d)", thousands(g.N), ops.OneLine(g.Signature, most), g.Example))
	}
	return lines
}
