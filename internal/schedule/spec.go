package schedule

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Spec is what a schedule declares, in HCL and in SQL alike.
type Spec = store.ScheduleSpec

// Bounds of a Spec. Validators in SQL have the same.
const (
	MaxName     = 255            // bytes of a name and of a task type
	MinInterval = time.Second    // of every and after
	MaxInterval = 366 * task.Day // of catch_up, too
	MaxYear     = 9999           // in which a slot may be
	MinYear     = 1970           // of from and until
)

// Values of Missed and Overlap. The first of each is the default.
const (
	MissedOne  = "one"
	MissedAll  = "all"
	MissedNone = "none"

	OverlapSkip  = "skip"
	OverlapQueue = "queue"
)

const (
	defaultCatchUp  = task.Day
	defaultTimezone = "UTC"
)

// Problem is one mistake in a Spec: the field, by its name in HCL and SQL, and what is wrong with it, with the remedy.
type Problem struct{ Field, Text string }

// SpecError lists all mistakes in a Spec.
type SpecError struct {
	Name     string // of the schedule
	Problems []Problem
}

func (e *SpecError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Field + ": " + p.Text
	}
	return fmt.Sprintf("schedule %q: %s", e.Name, strings.Join(texts, "; "))
}

// Plan is a compiled Spec. It is immutable.
type Plan struct {
	spec Spec

	cron  *cron         // nil: another kind
	every time.Duration // 0: another kind
	after time.Duration // 0: another kind

	jitter      time.Duration
	from, until time.Time // zero: open
	missed      string
	catchUp     time.Duration
	overlap     string
}

// New checks and compiles a Spec. Its error is a *SpecError with everything that is wrong.
func New(s Spec) (*Plan, error) {
	c := checker{e: &SpecError{Name: s.Name}}
	p := &Plan{spec: s}
	c.texts(&s)
	c.kind(&s, p)
	c.window(&s, p)
	p.jitter = c.duration("jitter", s.Jitter, 0, 0)
	p.catchUp = c.duration("catch_up", s.CatchUp, defaultCatchUp, 0)
	p.missed = c.oneOf("missed", s.Missed, MissedOne, MissedAll, MissedNone)
	p.overlap = c.oneOf("overlap", s.Overlap, OverlapSkip, OverlapQueue)
	if len(c.e.Problems) == 0 {
		c.spread(&s, p)
	}
	if len(c.e.Problems) > 0 {
		return nil, c.e
	}
	return p, nil
}

// Spec returns what the plan was compiled from.
func (p *Plan) Spec() Spec { return p.spec }

// Filled returns the Spec with the default of each field that is not set and has one. What is set stays as it is written.
func (p *Plan) Filled() Spec {
	s := p.spec
	if p.cron != nil {
		s.Timezone = cmp.Or(s.Timezone, defaultTimezone)
	}
	if s.Payload == nil {
		s.Payload = json.RawMessage("{}")
	}
	s.Jitter = cmp.Or(s.Jitter, task.FormatDuration(p.jitter))
	s.CatchUp = cmp.Or(s.CatchUp, task.FormatDuration(p.catchUp))
	s.Missed, s.Overlap = p.missed, p.overlap
	return s
}

// checker collects problems.
type checker struct{ e *SpecError }

func (c *checker) wrong(field, format string, args ...any) {
	c.e.Problems = append(c.e.Problems, Problem{Field: field, Text: fmt.Sprintf(format, args...)})
}

// texts checks what is stored and sent as it is.
func (c *checker) texts(s *Spec) {
	for _, f := range []struct{ field, text string }{{"name", s.Name}, {"task", s.Task}} {
		switch {
		case f.text == "":
			c.wrong(f.field, "it is empty: a schedule needs a name and a task type")
		case len(f.text) > MaxName:
			c.wrong(f.field, "it is %d bytes long: %d at most", len(f.text), MaxName)
		case !store.Storable(f.text):
			c.wrong(f.field, "%q: text must be UTF-8 without NUL", f.text)
		}
	}
	if s.Payload == nil {
		return
	}
	if err := (&store.EnqueueRequest{Type: "x", Payload: s.Payload}).Check(); err != nil {
		c.wrong("payload", "%v", err)
	} else if !bytes.HasPrefix(bytes.TrimSpace(s.Payload), []byte("{")) {
		c.wrong("payload", `it must be a JSON object: the time of the slot is added to it as "slot"`)
	}
}

// kind compiles the one of cron, every and after that is set.
func (c *checker) kind(s *Spec, p *Plan) {
	set := 0
	for _, text := range []string{s.Cron, s.Every, s.After} {
		if text != "" {
			set++
		}
	}
	switch {
	case set == 0:
		c.wrong("cron", "none of cron, every and after is set: set one of them")
		return
	case set > 1:
		c.wrong("cron", "more than one of cron, every and after is set: a schedule has one of them")
		return
	case s.Timezone != "" && s.Cron == "":
		c.wrong("timezone", `it has an effect only with cron: leave it out; every counts from "from", which is one moment everywhere`)
	}
	switch {
	case s.Every != "":
		p.every = c.duration("every", s.Every, 0, MinInterval)
	case s.After != "":
		p.after = c.duration("after", s.After, 0, MinInterval)
	default:
		z, err := loadZone(s.Timezone)
		if err != nil {
			c.wrong("timezone", "%v", err)
		}
		if p.cron, err = parseCron(s.Cron); err != nil {
			c.wrong("cron", "%v", err)
			return
		}
		p.cron.zone = z
	}
}

// window reads from and until.
func (c *checker) window(s *Spec, p *Plan) {
	p.from, p.until = c.moment("from", s.From), c.moment("until", s.Until)
	if !p.from.IsZero() && !p.until.IsZero() && !p.from.Before(p.until) {
		c.wrong("until", "%s is not after from: no slot is between them", s.Until)
	}
}

// spread checks that tasks with jitter stay in the order of their slots.
func (c *checker) spread(s *Spec, p *Plan) {
	gap, what := p.every+p.after, "time between two slots" // one of the two is 0
	if p.cron != nil {
		gap, what = p.cron.shortestGap(), "shortest time between two of its times of day"
	}
	if p.jitter > 0 && p.jitter >= gap {
		c.wrong("jitter", "%s is not shorter than the %s, %s", s.Jitter, what, task.FormatDuration(gap))
	}
}

// A moment is RFC 3339 with at most milliseconds, without leap seconds, and with an offset that exists.
var momentShape = regexp.MustCompile(
	`^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,3})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])$`)

func (c *checker) moment(field, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if !momentShape.MatchString(text) || err != nil {
		c.wrong(field, `%q is not a time: write RFC 3339 with milliseconds at most, as in "2026-12-01T00:00:00Z" or "2026-12-01T08:00:00+08:00"`, text)
		return time.Time{}
	}
	t = t.UTC()
	if t.Year() < MinYear || t.Year() > MaxYear {
		c.wrong(field, "%s: use a year from %d to %d", text, MinYear, MaxYear)
		return time.Time{}
	}
	return t
}

// Durations of schedules are those of task.ParseDuration, but plain enough for SQL to check: whole numbers, the larger unit
// first. Their sums are whole milliseconds, which every store keeps exactly.
var durationShape = regexp.MustCompile(`^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$`)

func (c *checker) duration(field, text string, unset, least time.Duration) time.Duration {
	if text == "" {
		return unset
	}
	d, err := task.ParseDuration(text)
	switch {
	case err != nil:
		c.wrong(field, "%v", err)
	case !durationShape.MatchString(text):
		c.wrong(field, `%q: use whole numbers of d, h, m, s and ms, in this order, as in "1h30m"`, text)
	case d < least || d > MaxInterval:
		c.wrong(field, "%s: it must be from %s to %s", text, task.FormatDuration(least), task.FormatDuration(MaxInterval))
	default:
		return d
	}
	return unset
}

// oneOf checks a value; the first one is the default.
func (c *checker) oneOf(field, text string, values ...string) string {
	if text == "" {
		return values[0]
	}
	for _, v := range values {
		if text == v {
			return v
		}
	}
	c.wrong(field, "%q: use %s", text, orList(values))
	return values[0]
}
