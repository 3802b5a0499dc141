// Package suite holds what is measured: each scenario is a file.
package suite

import (
	"context"
	"fmt"
	"io"
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
	Progress io.Writer
	// Patience is how long all waiting for a quiet machine, and all repeating of disturbed runs, may still take.
	Patience time.Duration
}

// say tells people who watch how it goes.
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
	s.Book.Add(scenario, as, o.Measures)
	if o.Version != "" {
		s.Versions[r.Contender.Name] = o.Version
	}
	s.say("%s %s: %s (%.1f s in all)\n", scenario, as, o.Brief(), time.Since(began).Seconds())
	return nil
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

// Scenario is one thing that is measured.
type Scenario struct {
	Name string
	Is   string // in a few words
	Run  func(ctx context.Context, s *Suite) error
}

// Scenarios lists all.
func Scenarios() []Scenario {
	return []Scenario{
		{"noop", "rows that do nothing: the engine alone", func(ctx context.Context, s *Suite) error {
			return s.compare(ctx, work.Noop, s.rows(200_000))
		}},
		{"http", "one POST to a server on this machine for each row", func(ctx context.Context, s *Suite) error {
			return s.compare(ctx, work.HTTP, s.rows(60_000))
		}},
		{"exec", "one /bin/true for each row", func(ctx context.Context, s *Suite) error {
			return s.compare(ctx, work.Exec, s.rows(8_000))
		}},
		{"latency", "insert to start, one row every 20 ms", func(ctx context.Context, s *Suite) error {
			return s.compare(ctx, work.Latency, s.rows(500))
		}},
	}
}
