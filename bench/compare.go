package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/bench/report"
	"github.com/leasehold/leasehold/bench/suite"
)

// tree is a version of this repository with what was built of it. Its own benchmarks measure it, whatever they are
// like: only their flags, their help and the tables that they print are relied upon.
type tree struct {
	name string
	dir  string // the command runs here
	bin  string // its bench
	book *report.Book
}

// compare alternates this tree with an earlier one and reports whether this one has kept up.
func (o *options) compare(ctx context.Context) (held bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	here, err := os.Getwd()
	if err != nil {
		return false, err
	}
	base, err := filepath.Abs(o.base)
	if err != nil {
		return false, err
	}
	now := &tree{"this tree", here, self, report.NewBook()}
	before := &tree{"the earlier tree", base, filepath.Join(base, "bin", "bench"), report.NewBook()}
	held, left, err := o.alternate(ctx, now, before)
	if err != nil {
		return false, err
	}
	for _, scenario := range left {
		fmt.Fprintf(os.Stdout, "left out: %s, which the earlier tree does not have\n", scenario) //nolint:errcheck // as below
	}
	return held, nil
}

// alternate measures two trees in turn, and lists the scenarios that the earlier one does not have.
func (o *options) alternate(ctx context.Context, now, before *tree) (held bool, left []string, err error) {
	known, err := before.scenarios(ctx)
	if err != nil {
		return false, nil, err
	}
	for _, scenario := range o.only {
		if !slices.Contains(known, scenario) {
			left = append(left, scenario)
			continue
		}
		for round := range o.rounds {
			both := []*tree{before, now}
			if round%2 == 1 { // who comes first changes
				slices.Reverse(both)
			}
			for _, t := range both {
				if err := t.measure(ctx, o, scenario); err != nil {
					return false, nil, err
				}
			}
		}
	}
	text, held := report.Compare(now.book, before.book)
	fmt.Fprintf(os.Stdout, "\n%s\n", text) //nolint:errcheck // where would one say that stdout is broken?
	return held, left, nil
}

// command runs the tree's bench and gives what it prints.
func (t *tree) command(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, t.bin, args...) //nolint:gosec // it is this program, or the one that -base names
	cmd.Dir = t.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err = cmd.Run()
	return out.String(), log.String(), err
}

// listed is how the help of a bench lists its scenarios.
var listed = regexp.MustCompile(`measure only these, separated by commas: ([a-z, ]+)`)

// scenarios asks the tree which scenarios it has.
func (t *tree) scenarios(ctx context.Context) ([]string, error) {
	_, help, _ := t.command(ctx, "-h") // what it ends with does not matter
	found := listed.FindStringSubmatch(help)
	if found == nil {
		return nil, fmt.Errorf("%s lists no scenarios: %s", t.bin, help)
	}
	return strings.Split(found[1], ", "), nil
}

// measure has the tree measure itself once in a scenario.
func (t *tree) measure(ctx context.Context, o *options, scenario string) error {
	out, stderr, err := t.command(ctx, "-only", scenario, "-rounds", "1", "-peers", "leasehold", "-targets", "",
		"-scale", strconv.FormatFloat(o.scale, 'g', -1, 64), "-patience", (o.patience / time.Duration(2*o.rounds)).String())
	if err != nil {
		return fmt.Errorf("%s of %s: %w; it said: %s", scenario, t.name, err, stderr)
	}
	found := report.Parse(out)
	if len(found.Scenarios()) == 0 {
		return errors.New(scenario + " of " + t.name + " gave no tables: " + out)
	}
	t.book.Merge(found)
	fmt.Fprintf(os.Stderr, "%s, %s:\n%s", scenario, t.name, stderr)
	return nil
}

// worthwhile are the scenarios that run by default: filling tables takes minutes, each time
// and for each tree.
func worthwhile() []string {
	var names []string
	for _, s := range suite.Scenarios() {
		if s.Name != "flat" {
			names = append(names, s.Name)
		}
	}
	return names
}
