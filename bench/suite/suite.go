// Package suite holds what is measured: each scenario is a file.
package suite

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/leasehold/leasehold/bench/report"
	"github.com/leasehold/leasehold/bench/rig"
	"github.com/leasehold/leasehold/bench/work"
)

// Suite is one measurement.
type Suite struct {
	Rig      *rig.Rig
	Book     *report.Book
	Versions map[string]string // of contenders
	Rounds   int
	Scale    float64 // of the numbers of rows
	Profile  string  // the directory for profiles of Leasehold; "": none
	Peers    []rig.Contender
	Files    []rig.Contender // those on SQLite files
	Pooler   string          // the URL of a PgBouncer before the server; "": there is none
	Progress io.Writer
	// Patience is how long all waiting for a quiet machine, and all repeating of disturbed runs, may still take.
	Patience time.Duration
	// LeftOut is what could not be measured here, and why.
	LeftOut []string
}

// say prints progress.
func (s *Suite) say(format string, args ...any) { _, _ = fmt.Fprintf(s.Progress, format, args...) }

// rows scales a number of rows.
func (s *Suite) rows(n int) int { return max(int(float64(n)*s.Scale), 20) }

// run runs once and notes what came of it under the scenario.
func (s *Suite) run(ctx context.Context, scenario, as string, r rig.Run) error {
	began := time.Now()
	if s.Profile != "" && r.Contender.Name == "leasehold" {
		r.Job.Profile = fmt.Sprintf("%s/%s-%s.pprof", s.Profile, scenario, as)
	}
	o, err := s.quietly(ctx, r)
	if err != nil {
		return fmt.Errorf("%s: %w", scenario, err)
	}
	s.note(scenario, as, r.Contender, o)
	s.say("  %.1f s in all\n", time.Since(began).Seconds())
	return nil
}

// note writes down what came of a run.
func (s *Suite) note(scenario, as string, c rig.Contender, o rig.Outcome) {
	s.Book.Add(scenario, as, o.Measures)
	if o.Version != "" {
		s.Versions[c.Name] = o.Version
	}
	s.say("%s %s: %s\n", scenario, as, o.Brief())
}

// contender is one of those that take part.
func (s *Suite) contender(name string) (c rig.Contender, ok bool) {
	i := slices.IndexFunc(s.Peers, func(c rig.Contender) bool { return c.Name == name })
	if i < 0 {
		return c, false
	}
	return s.Peers[i], true
}

// compare runs the same work on all contenders, alternating, round by round.
func (s *Suite) compare(ctx context.Context, kind work.Kind, rows int) error {
	for range s.Rounds {
		for _, c := range s.Peers {
			if err := s.run(ctx, string(kind), c.Name, rig.Run{Contender: c, Job: work.Job{Kind: kind, Rows: rows}}); err != nil {
				return err
			}
		}
	}
	return nil
}
