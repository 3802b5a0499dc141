package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// Bounds of a trace, in lines.
const (
	traceBefore = 70 // of the time before the violation
	traceAfter  = 20
	traceFacts  = 12 // of each sort of what the store says in the end
	movesShown  = 6  // on one line
	pingsShown  = 3  // of a run of pings, one less than this many is shown as it is
)

// sampleAround is how far from the violation samples are of interest.
const sampleAround = 30 * time.Second

// Trace returns the events around a violation: the tasks concerned as the store has them, and in the order of time what
// their attempts reported, their states in the store, what agents logged about them, which agents came and went, and what
// was broken then. It is bounded, and meant for a terminal.
func Trace(h *history.History, v Violation) string {
	x := newIndex(h)
	t := &tracer{x: x, v: v, who: make(map[string]bool)}
	for _, id := range v.IDs {
		if s := x.byID[id]; s != nil {
			t.records = append(t.records, s)
		}
	}
	t.attempts()
	t.leases()
	t.samples()
	t.said()
	t.agents()
	t.faults()

	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s\n", v, x.clock(v.At))
	for _, s := range t.records {
		x.facts(&b, s)
	}
	t.write(&b)
	return b.String()
}

// clock is a time as traces have it: seconds since the first event.
func (x *index) clock(at time.Duration) string {
	return fmt.Sprintf("%.3f", (at - x.begin).Seconds())
}

// line is one line of a trace.
type line struct {
	at      time.Duration
	who     string
	subject string // "17/3": task and fence
	what    string
	attempt *attempt // where it is a ping of one
}

// tracer gathers the lines of a trace.
type tracer struct {
	x       *index
	v       Violation
	records []*record
	who     map[string]bool // agents concerned
	lines   []line
	around  span // of the attempts' events
}

func (t *tracer) add(at time.Duration, who, subject, format string, args ...any) {
	t.lines = append(t.lines, line{at: at, who: who, subject: subject, what: fmt.Sprintf(format, args...)})
}

// attempts adds what the tasks' attempts reported.
func (t *tracer) attempts() {
	t.around = span{t.v.At, t.v.At}
	for _, s := range t.records {
		if e := s.enqueued; e != nil && e.At > 0 {
			t.add(e.At, "", fmt.Sprint(s.id), "enqueued as %q: %s", e.Key, e.Commit)
			t.around.from = min(t.around.from, e.At)
			if at := e.Expects.CancelAt; at > 0 {
				t.add(at, "", fmt.Sprint(s.id), "a cancellation was answered")
			}
		}
		for _, o := range slices.Concat(s.ops, t.x.batches.ops[s.batch()]) {
			t.request(s, o)
		}
		for _, a := range s.inOrder() {
			for _, e := range a.events {
				l := line{at: e.At, who: e.Who, subject: fmt.Sprintf("%d/%d", a.id, a.fence), what: notified(e)}
				if e.What == history.Ping || e.What == history.Pinged {
					l.attempt = a
				}
				t.lines = append(t.lines, l)
			}
			t.who[a.who] = true
			t.around.from, t.around.to = min(t.around.from, a.events[0].At), max(t.around.to, a.lastSeen())
		}
	}
}

// request adds what an operator asked for.
func (t *tracer) request(s *record, o *history.Op) {
	whose := "it"
	if o.Batch != 0 {
		whose = fmt.Sprintf("batch %d", o.Batch)
	}
	t.add(o.Requested, "operator", fmt.Sprint(s.id), "asks for the %s of %s", o.Verb, whose)
	if o.At > 0 {
		t.add(o.At, "operator", fmt.Sprint(s.id), "gets the reply to the %s of %s: %q %s", o.Verb, whose, o.Answer, short(o.Error))
	}
}

// notified is an event in words.
func notified(e *history.Event) string {
	what := string(e.What)
	if e.Phase != "" {
		what = e.Phase + ": " + what
	}
	if e.What == history.Start && e.Attempt > 0 {
		what += fmt.Sprintf(", attempt %d", e.Attempt)
	}
	if e.Note != "" {
		what += ": " + short(e.Note)
	}
	return what
}

// leases adds the calls about the named lease around the violation, except those that were denied.
func (t *tracer) leases() {
	if t.v.Lease == "" {
		return
	}
	const around = 10 * time.Second
	t.around = span{t.v.At - around, t.v.At + around}
	for i := range t.x.h.Leases.Calls {
		c := &t.x.h.Leases.Calls[i]
		if c.Name != t.v.Lease || c.At < t.around.from || c.At > t.around.to || c.Answer == history.Denied {
			continue
		}
		t.add(c.At, c.Holder, fmt.Sprintf("%s/%d", c.Name, c.Fence), "%s: %s, asked %s before", c.Verb, c.Answer,
			(c.At - c.Asked).Round(time.Millisecond))
	}
}

// samples adds how the tasks stood in the store, around the violation.
func (t *tracer) samples() {
	for i := range t.x.h.Samples {
		s := &t.x.h.Samples[i]
		if !slices.Contains(t.v.IDs, s.ID) || s.At < t.v.At-sampleAround || s.At > t.v.At+sampleAround {
			continue
		}
		t.add(s.At, "store", fmt.Sprintf("%d/%d", s.ID, s.Fence), "lease has %s left, its session %s (asked in %s)",
			s.Left.Round(time.Millisecond), s.Present.Round(time.Millisecond), s.Within.Round(time.Millisecond))
	}
}

// said adds what agents' logs say of the tasks.
func (t *tracer) said() {
	for i := range t.x.h.Said {
		s := &t.x.h.Said[i]
		if slices.Contains(t.v.IDs, s.ID) {
			t.add(s.At, s.Who, fmt.Sprintf("%d/%d", s.ID, s.Fence), "says: %s", short(s.Text))
		}
	}
}

// agents adds what befell the agents concerned.
func (t *tracer) agents() {
	for i := range t.x.h.Events {
		e := &t.x.h.Events[i]
		if e.ID != 0 || !t.who[e.Who] || e.At < t.around.from || e.At > t.around.to {
			continue
		}
		switch e.What {
		case history.Up, history.Killed, history.Frozen, history.Thawed:
			t.add(e.At, e.Who, "", "the agent: %s", e.What)
		default:
		}
	}
}

// faults adds what was broken while the story went on.
func (t *tracer) faults() {
	for _, f := range t.x.weather {
		if !f.meets(t.around) {
			continue
		}
		until := "for good"
		if f.to < forever {
			until = "until " + t.x.clock(f.to)
		}
		t.add(f.from, "nemesis", "", "%s, %s", short(f.note), until)
	}
	for _, at := range t.x.h.Crashes {
		if (span{at, at}).meets(t.around) {
			t.add(at, "nemesis", "", "the server crashed")
		}
	}
}

// write writes the lines, aligned.
func (t *tracer) write(b *strings.Builder) {
	slices.SortStableFunc(t.lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	t.lines = elide(t.lines)
	place := len(t.lines)
	if i := slices.IndexFunc(t.lines, func(l line) bool { return l.at > t.v.At }); i >= 0 {
		place = i
	}
	first, last := max(place-traceBefore, 0), min(place+traceAfter, len(t.lines))
	if first > 0 {
		fmt.Fprintf(b, "  … %d lines before these\n", first)
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i, l := range t.lines[first:last] {
		mark := " "
		if l.at == t.v.At && (first+i+1 == len(t.lines) || t.lines[first+i+1].at != t.v.At) {
			mark = ">" // here it went wrong
		}
		_, _ = fmt.Fprintf(w, "%s %10s\t%s\t%s\t%s\n", mark, t.x.clock(l.at), l.who, l.subject, l.what) // a Builder takes all
	}
	_ = w.Flush() // as above
	if rest := len(t.lines) - last; rest > 0 {
		fmt.Fprintf(b, "  … %d lines after these\n", rest)
	}
}

// elide leaves out the middle of long runs of pings of one attempt.
func elide(lines []line) []line {
	var kept []line
	for i := 0; i < len(lines); {
		end := i + 1
		for end < len(lines) && lines[i].attempt != nil && lines[end].attempt == lines[i].attempt {
			end++
		}
		if end-i <= pingsShown {
			kept = append(kept, lines[i:end]...)
		} else {
			middle := lines[i+1]
			middle.what, middle.attempt = fmt.Sprintf("… %d more of these", end-i-2), nil
			kept = append(kept, lines[i], middle, lines[end-1])
		}
		i = end
	}
	return kept
}

// facts writes how the store has a task.
func (x *index) facts(b *strings.Builder, s *record) {
	if r := s.row; r == nil {
		fmt.Fprintf(b, "  task %d: the store has no such row\n", s.id)
	} else {
		fmt.Fprintf(b, "  task %d: %s %q is %s, fence %d, attempt %d, in the hot table %t, in the archive %d times\n",
			s.id, r.Type, r.Key, r.State, r.Fence, r.Attempt, r.Live, r.Archived)
		if r.Outcome != "" || r.Error != "" || len(r.Result) > 0 {
			fmt.Fprintf(b, "    outcome %s, error %q, result %s\n", r.Outcome, short(r.Error), cmp.Or(short(string(r.Result)), "none"))
		}
	}
	s.way(b)
	for i, t := range s.tried {
		if i == traceFacts {
			fmt.Fprintf(b, "    … %d more settlements\n", len(s.tried)-i)
			break
		}
		fmt.Fprintf(b, "    settled with fence %d by session %d: attempt %d, of fence %d, %s: %s %q\n",
			t.Fence, t.Session, t.Attempt, t.RanFence, t.Phase, t.Outcome, short(t.Error))
	}
	for i, e := range s.effects {
		if i == traceFacts {
			fmt.Fprintf(b, "    … %d more effects\n", len(s.effects)-i)
			break
		}
		what := "effect"
		if rollsBack(e) {
			what = fmt.Sprintf("rollback of effect %d: effect", e.RollsBack)
		}
		fmt.Fprintf(b, "    %s %d by fence %d, %s\n", what, e.Serial, e.Fence, e.Who)
	}
}

// way writes the states that a row went through, with its fences.
func (s *record) way(b *strings.Builder) {
	if len(s.moves) == 0 {
		return
	}
	b.WriteString("    its way:")
	first := max(len(s.moves)-4*traceFacts, 0)
	if first > 0 {
		b.WriteString(" …")
	}
	round := 0
	for i, m := range s.moves[first:] {
		if i > 0 && i%movesShown == 0 {
			b.WriteString("\n     ")
		}
		if m.Round != round {
			fmt.Fprintf(b, " (round %d)", m.Round)
			round = m.Round
		}
		fmt.Fprintf(b, " %s/%d", m.State, m.Fence)
	}
	b.WriteByte('\n')
}

// short is text cut to what fits on a line.
func short(text string) string {
	const most = 100
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
