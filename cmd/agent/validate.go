package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/schedule"
)

type validateCmd struct {
	Paths []string `arg:"" optional:"" name:"path" help:"Configuration files and directories."`
}

// Help gives examples.
func (validateCmd) Help() string {
	return `Reports all mistakes at once, each with file, line and what is allowed there. Exit 2 if there are any. Prints what each schedule
means, and its next slot by the clock of this host, and what each chunk plan does.

Examples:

    leasehold validate
    leasehold validate examples/ more.hcl
    leasehold validate -o json`
}

// Run checks the configuration.
func (c validateCmd) Run(a *app) error {
	cfg, err := a.readConfig(c.Paths)
	if err != nil {
		return err
	}
	names := []string{}
	for _, t := range cfg.Tasks {
		names = append(names, t.Name)
	}
	schedules, err := explain(cfg.Schedules, time.Now())
	if err != nil {
		return err
	}
	chunks := explainChunks(cfg.Chunks)
	report := struct {
		Files []string `json:"files"`
		Types []string `json:"types"`
		Hash  string   `json:"hash"`

		Schedules []explained       `json:"schedules,omitempty"`
		Chunks    []explainedChunks `json:"chunks,omitempty"`
		Warnings  []config.Warning  `json:"warnings,omitempty"`
	}{cfg.Files, names, cfg.Hash, schedules, chunks, cfg.Warnings}
	for _, w := range cfg.Warnings {
		if _, err := fmt.Fprintf(a.err, "leasehold: warning: %s: %s\n", w.Place, ops.Printable(w.Text)); err != nil {
			return fmt.Errorf("write the warnings: %w", err)
		}
	}
	return a.print(report, func(w io.Writer) error {
		found := count(len(cfg.Files), "file") + ", " + count(len(names), "task type")
		if len(schedules) > 0 {
			found += ", " + count(len(schedules), "schedule")
		}
		if len(chunks) > 0 {
			found += ", " + count(len(chunks), "chunk plan")
		}
		if _, err := fmt.Fprintf(w, "OK: %s (%s)\n", found, cfg.Hash); err != nil {
			return err
		}
		for _, s := range schedules {
			if _, err := fmt.Fprintln(w, ops.Printable(s.line())); err != nil {
				return err
			}
		}
		for _, c := range chunks {
			if _, err := fmt.Fprintln(w, ops.Printable("chunks "+c.Name+": "+c.Words)); err != nil {
				return err
			}
		}
		return nil
	})
}

// explained is a schedule in words.
type explained struct {
	Name  string     `json:"name"`
	Task  string     `json:"task"`
	Words string     `json:"words"`
	Next  *time.Time `json:"next,omitempty"` // the first slot from now on, UTC; nil: there is none

	zone  *time.Location // in which line shows Next
	slots bool           // it has slots of its own: it fires at times that are known beforehand
}

// explain says what schedules mean: when they fire, and when the next time is.
func explain(specs []schedule.Spec, now time.Time) ([]explained, error) {
	var all []explained
	for _, s := range specs {
		p, err := schedule.New(s)
		if err != nil {
			return nil, err
		}
		e := explained{Name: s.Name, Task: s.Task, Words: p.Words(), slots: s.After == ""}
		if e.zone, err = time.LoadLocation(s.Timezone); err != nil {
			return nil, err
		}
		if next, ok := p.Next(now); ok {
			e.Next = &next
		}
		all = append(all, e)
	}
	return all, nil
}

// line is one line for people.
func (e *explained) line() string {
	text := fmt.Sprintf("schedule %s: %s", e.Name, e.Words)
	switch {
	case e.Next != nil:
		text += "; next " + e.Next.In(e.zone).Format(time.RFC3339Nano)
	case e.slots:
		text += "; it never fires again"
	}
	return text
}

// explainedChunks is a chunk plan in words.
type explainedChunks struct {
	Name  string `json:"name"`
	Task  string `json:"task"`
	Words string `json:"words"`
}

// explainChunks says what chunk plans do.
func explainChunks(plans []config.Chunks) []explainedChunks {
	var all []explainedChunks
	for i := range plans {
		all = append(all, explainedChunks{Name: plans[i].Spec.Name, Task: plans[i].Spec.Task, Words: plans[i].Words()})
	}
	return all
}

// loadConfig loads what the arguments and --config name, else what LEASEHOLD_CONFIG names, else ./leasehold.hcl.
func (a *app) loadConfig(args []string) (*config.Config, error) {
	return config.Load(a.configPaths(args), config.Options{})
}

// readConfig is loadConfig for those who only look: what `leasehold config` printed, its secrets redacted, will do.
func (a *app) readConfig(args []string) (*config.Config, error) {
	return config.Load(a.configPaths(args), config.Options{Redacted: true})
}

// configPaths lists the named paths; none: the default.
func (a *app) configPaths(args []string) []string {
	if paths := slices.Concat(args, a.cli.Config); len(paths) > 0 {
		return paths
	}
	return filepath.SplitList(os.Getenv("LEASEHOLD_CONFIG"))
}

// count is "1 file", "2 files".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
