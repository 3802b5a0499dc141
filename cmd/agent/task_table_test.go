package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	file = "testdata/golden/" + file
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "go test ./cmd/agent -update writes it anew")
}

// listed are tasks in all kinds of states, with long names and errors.
func listed(now time.Time) []ops.Task {
	ago := func(d time.Duration) *time.Time { t := now.Add(-d); return &t }
	return []ops.Task{
		{ID: 4217, Type: "invoice.send", State: task.StatePending, CreatedAt: *ago(3 * time.Second), RunAt: now.Add(2 * time.Hour)},
		{ID: 4216, Type: "invoice.send", State: task.StatePending, CreatedAt: *ago(4 * time.Minute), RunAt: *ago(4 * time.Minute)},
		{
			ID: 4215, Type: "video.resize", State: task.StateRunning, Attempt: 1, CreatedAt: *ago(time.Hour), RunAt: *ago(time.Hour),
			ClaimedAt: ago(90 * time.Second), Progress: json.RawMessage(`0.4`), Message: "frame 400 of 1000",
		},
		{
			ID: 4214, Type: "report.build.for.the.whole.of.last.year", State: task.StateFailed, Attempt: 3, Key: "report-2026-acme-and-sons",
			CreatedAt: *ago(50 * time.Hour), RunAt: *ago(50 * time.Hour), FinishedAt: ago(26 * time.Hour), Batch: 17,
			Error: "attempt 3 of 3 failed: exit code 1: psycopg2.errors.UndefinedTable: relation \"report\" does not exist",
		},
		{
			ID: 4213, Type: "invoice.send", State: task.StateRetryPending, Attempt: 2, MaxAttempts: 5, CreatedAt: *ago(time.Hour),
			RunAt: now.Add(40 * time.Second),
			Error: "attempt 2 of 5 failed: no connection: dial tcp 127.0.0.1:8080: connect: connection refused",
		},
		{
			ID: 4212, Type: "invoice.send", State: task.StateRollbackFailed, Attempt: 6, CreatedAt: *ago(9 * 24 * time.Hour),
			RunAt: *ago(time.Hour), FinishedAt: ago(5 * time.Minute),
			Error: "rollback attempt 6 of 6 failed: answered 500: \x1b[2Jno such invoice",
		},
		{
			ID: 4211, Type: "hello", State: task.StateSucceeded, Attempt: 1, CreatedAt: *ago(7 * time.Second), RunAt: *ago(7 * time.Second),
			FinishedAt: ago(6 * time.Second),
		},
	}
}

func TestTaskListFits(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		width  int
		colour bool
		infos  []ops.Task
	}{
		{80, false, listed(now)}, {80, true, listed(now)}, {120, false, listed(now)}, {40, false, listed(now)}, {0, false, listed(now)},
		{80, false, nil},
		// What a first run has: no keys, no batches.
		{80, false, append(listed(now)[4:5:5], listed(now)[6], listed(now)[2])},
	} {
		name := fmt.Sprintf("list-%d-%d", c.width, len(c.infos))
		if c.colour {
			name += "-colour"
		}
		t.Run(name, func(t *testing.T) {
			a := &app{cli: &cli{}, colour: c.colour}
			var out bytes.Buffer
			require.NoError(t, writeColumns(&out, a.taskColumns(c.infos, now), c.width))
			for line := range strings.Lines(out.String()) {
				if c.width > 0 {
					require.LessOrEqual(t, text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")), c.width, line)
				}
			}
			golden(t, name+".txt", out.Bytes())
		})
	}
}

// However much came before, the line that --wait draws begins with the present, and what is left of it at the end is short.
func TestWaitLineFits(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	info := &ops.Task{
		ID: 7, Type: "x", State: task.StateRunning, Attempt: 2, CreatedAt: at, RunAt: at, ClaimedAt: &at,
		Progress: json.RawMessage(`0.4`), Message: "page 40 of 100",
	}
	add := func(n int, v task.Verdict, reason string) {
		for range n {
			info.History = append(info.History, store.AttemptInfo{Phase: task.Run, Attempt: 1, Outcome: v, Error: reason, EndedAt: at})
		}
	}
	add(1, task.Failed, "exit code 1: "+strings.Repeat("the disk is full ", 20))
	add(103, task.Deferred, "the target asked to come later")
	a := &app{cli: &cli{}}
	var lines bytes.Buffer
	show := func() {
		line := a.summaryLine(info)
		require.LessOrEqual(t, len(line), 400)
		fmt.Fprintln(&lines, text.Snip(line, 79, "…"))
		fmt.Fprintln(&lines, line)
		fmt.Fprintln(&lines, ops.Summary(info))
	}
	show()
	info.State, info.RunAt = task.StateRetryPending, at.Add(time.Minute)
	show()
	for range 20 {
		add(2, task.Failed, "exit code 1")
		add(3, task.Drained, "the agent was stopped")
	}
	show()
	golden(t, "wait.txt", lines.Bytes())
}
