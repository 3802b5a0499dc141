//go:build linux

package faults_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults"
	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/harness"
)

// TestMain runs one test for each processor at once: each has agents, a server and a load of its own.
func TestMain(m *testing.M) {
	const each = 1
	status := harness.MainBeside(m, each)
	if dir, err := builtDir(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(status)
}

// builtDir makes the directory of the programs that all tests share, and build builds them into it, each once.
var (
	builtDir = sync.OnceValues(newProgramsDir)
	build    = sync.OnceValues(func() (p faults.Programs, err error) {
		dir, err := builtDir()
		if err != nil {
			return p, err
		}
		return faults.Build(dir)
	})
)

// inspect fails the test where a run broke a promise, with the story of each breach.
func inspect(t *testing.T, h *history.History) {
	t.Helper()
	all := check.Check(h)
	const shown = 5
	for i, v := range all {
		if i == shown {
			t.Errorf("and %d more", len(all)-shown)
			break
		}
		t.Errorf("seed %d: %s\n%s", h.Seed, v.Invariant, check.Trace(h, v))
	}
	t.Log(summary(h))
}

// summary returns how much has happened.
func summary(h *history.History) string {
	events, outcomes, states := map[history.What]int{}, map[string]int{}, map[string]int{}
	for _, e := range h.Events {
		events[e.What]++
	}
	for _, a := range h.Tried {
		outcomes[a.Outcome]++
	}
	for _, r := range h.Rows {
		states[r.State]++
	}
	return strings.Join([]string{
		fmt.Sprintf("seed %d: %d rows %v", h.Seed, len(h.Rows), states),
		fmt.Sprintf("events %v", events), fmt.Sprintf("outcomes of attempts that did not end their row at once %v", outcomes),
		fmt.Sprintf("%d effects, %d leases looked at, %d rows of on_failed", len(h.Effects), len(h.Samples), len(h.Graves)),
		summaryOfBatches(h), summaryOfSchedules(h), summaryOfLeases(h), summaryOfChunks(h), summaryOfOrphans(h),
	}, "\n")
}

// summaryOfSchedules returns how many slots have fired.
func summaryOfSchedules(h *history.History) string {
	var all []string
	for _, s := range h.Schedules {
		all = append(all, fmt.Sprintf("%s: %d fired, %d missed", s.Name, len(s.Fired), s.Missed))
	}
	return "slots: " + strings.Join(all, "; ")
}

// summaryOfChunks returns how a table was cut.
func summaryOfChunks(h *history.History) string {
	c, halves := &h.Chunks, 0
	for _, s := range c.Steps {
		if s.Half {
			halves++
		}
	}
	return fmt.Sprintf("chunks: %d, %d halves, %d of %d passes planned any; rows by how often they were marked: %v, %d late ones",
		len(c.Steps)-halves, halves, len(c.Passes), len(c.Sealed), c.Marks, c.Late)
}

// summaryOfOrphans returns what became of rows that were inserted under types that no agent declares.
func summaryOfOrphans(h *history.History) string {
	under, states := map[string]string{}, map[string]int{}
	for _, e := range h.Enqueued {
		under[e.Key] = e.Under
	}
	for _, r := range h.Rows {
		if r.Type == under[r.Key] {
			states[r.State]++
		}
	}
	return fmt.Sprintf("orphans: %d commands, %d rows moved, others %v", len(h.OrphanOps), len(h.TypeMoves), states)
}

// summaryOfLeases returns what holders of named leases got, and what the store did.
func summaryOfLeases(h *history.History) string {
	answers, steps := map[string]int{}, map[string]int{}
	for _, c := range h.Leases.Calls {
		if c.Answer != "" {
			answers[string(c.Verb)+" "+string(c.Answer)]++
		}
	}
	for _, s := range h.Leases.Steps {
		steps[s.What]++
	}
	return fmt.Sprintf("named leases: %v; %v", answers, steps)
}

// summaryOfBatches returns how much has happened to batches, and what operators got as answers.
func summaryOfBatches(h *history.History) string {
	states, rounds, answers, rolledBack, again := map[string]int{}, 0, map[string]int{}, 0, 0
	for _, b := range h.Of.Ended {
		states[b.State]++
		rounds += b.Round
	}
	for _, o := range h.Ops {
		answer := o.Answer
		switch {
		case o.Error != "" && o.At > 0:
			answer = "refused"
		case o.Error != "":
			answer = "?"
		}
		if o.Batch != 0 {
			answer = "batch: " + answer
		}
		answers[o.Verb+" "+answer]++
	}
	for _, e := range h.Effects {
		if e.RollsBack != 0 {
			rolledBack++
		}
	}
	for _, r := range h.Rows {
		if r.Round > 0 {
			again++
		}
	}
	return fmt.Sprintf("%d batches %v, opened again %d times, %d samples, %d finish tasks; operators: %v; "+
		"%d effects rolled back, %d rows retried", len(h.Of.Ended), states, rounds, len(h.Of.Samples), len(h.Of.Finishes), answers, rolledBack, again)
}

// requireChunks requires that what the checks of chunks are about has happened.
func requireChunks(t *testing.T, h *history.History) {
	t.Helper()
	c := &h.Chunks
	require.NotEmpty(t, c.Steps)
	require.NotEmpty(t, c.Sealed)
	require.Positive(t, c.Late)
	require.True(t, slices.ContainsFunc(c.Steps, func(s history.ChunkStep) bool { return s.Half }), "no chunk was split")
}

// seedOr returns LEASEHOLD_SEED, or a seed where there is none.
func seedOr(t *testing.T, seed uint64) uint64 {
	t.Helper()
	if text := os.Getenv("LEASEHOLD_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	return seed
}

// programs is what a run is made of, built.
func programs(t *testing.T) faults.Programs {
	t.Helper()
	p, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// programsDir makes a directory for them.
func programsDir(t *testing.T) string {
	t.Helper()
	dir, err := newProgramsDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// newProgramsDir makes a directory that the server may read, which it may not one of a test's own.
func newProgramsDir() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "leasehold-programs-"); err == nil {
		err = os.Chmod(dir, 0o755)
	}
	return dir, err
}
