package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 12345: "12,345", 999_999: "999,999", 1_000_000: "1,000,000",
		-999: "-999", -1000: "-1,000", -123456: "-123,456",
	} {
		require.Equal(t, want, thousands(n))
	}
	require.Equal(t, "1 task", plural(1))
	require.Equal(t, "0 tasks", plural(0))
}

func TestPercentIsNeverRoundedUp(t *testing.T) {
	for share, want := range map[float64]string{
		0: "0%", 0.1: "10%", 0.3: "30%", 0.3333: "33.3%", 0.9999: "99.9%", 0.99999: "99.9%", 1: "100%", 0.57: "57%",
	} {
		require.Equal(t, want, percent(&share))
	}
	require.Empty(t, percent(nil))
}

func TestBar(t *testing.T) {
	require.Equal(t, "░░░░", bar(0, 4))
	require.Equal(t, "░░░░", bar(-1, 4))
	require.Equal(t, "██░░", bar(0.5, 4))
	require.Equal(t, "███░", bar(0.999, 4))
	require.Equal(t, "████", bar(1, 4))
	require.Equal(t, "████", bar(2, 4))
}

// half is a batch of 1,000 that is half done.
func half() *ops.BatchInfo {
	return &ops.BatchInfo{
		ID: 17, Name: "move to az2", State: ops.BatchRunning, Sealed: true, Total: 1000, Live: 500, Waiting: 492, Running: 8,
		Succeeded: 499, Failed: 1,
	}
}

func TestPace(t *testing.T) {
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	var p pace
	b := half()
	p.add(b, start)
	require.Empty(t, p.words(b), "one look tells nothing")
	b.Live = 400
	p.add(b, start.Add(500*time.Millisecond))
	require.Empty(t, p.words(b), "nor does half a second")
	b.Live = 300
	p.add(b, start.Add(2*time.Second))
	require.Equal(t, []string{"100/s", "about 3.0 s left"}, p.words(b))
	for range 100 {
		start = start.Add(time.Second)
		p.add(b, start)
	}
	require.Equal(t, []string{"0/s"}, p.words(b), "it stands still")
	require.Less(t, len(p.seen), 40)
	b.Live = 299
	p.add(b, start.Add(time.Second))
	require.Contains(t, p.words(b)[0], "/min")
	b.Sealed = false
	require.Len(t, p.words(b), 1, "nobody knows how many come")
	b.State, b.Live, b.RolledBack = ops.BatchRollingBack, 990, 10
	p.add(b, start.Add(2*time.Second))
	require.Len(t, p.seen, 1, "backward is another count")
}

func TestGone(t *testing.T) {
	for _, c := range []struct {
		name     string
		b        ops.BatchInfo
		done, of int64
	}{
		{"forward", ops.BatchInfo{State: ops.BatchRunning, Total: 10, Live: 4}, 6, 10},
		{"just turned", ops.BatchInfo{State: ops.BatchRollingBack, Total: 10, Live: 4, Succeeded: 6, Operation: "rollback"}, 0, 10},
		{"backward", ops.BatchInfo{
			State: ops.BatchRollingBack, Total: 10, Live: 3, Succeeded: 1, Cancelled: 4, RolledBack: 2, Operation: "rollback",
		}, 6, 10},
		{"backward, all of it under way", ops.BatchInfo{
			State: ops.BatchRollingBack, Total: 10, Live: 3, Succeeded: 1, Cancelled: 4, RolledBack: 1, RollbackFailed: 1,
		}, 6, 9},
	} {
		done, of, back := gone(&c.b)
		require.Equal(t, c.done, done, c.name)
		require.Equal(t, c.of, of, c.name)
		require.Equal(t, c.b.State == ops.BatchRollingBack, back, c.name)
	}
}

func TestPictureFitsTheTerminal(t *testing.T) {
	for _, width := range []int{80, 40, 200} {
		var out bytes.Buffer
		w := &watching{
			app: &app{cli: &cli{}}, screen: &screen{out: &out, width: width}, last: half(),
			failures: []ops.FailureGroup{{Signature: strings.Repeat("no room for # in zone ", 20), N: 12345, Example: 4211}},
		}
		w.last.Operation, w.last.RequestedBy = "cancel", "alice\x1b[2J"
		require.NoError(t, w.screen.draw(w.picture()))
		drawn := strings.TrimPrefix(out.String(), "\r\x1b[J")
		require.NotContains(t, drawn, "\x1b", "what people write is made harmless, and there is no colour")
		lines := strings.Split(strings.TrimSuffix(drawn, "\n"), "\n")
		for _, line := range lines {
			require.Less(t, text.StringWidthWithoutEscSequences(line), width, line)
		}
		require.Contains(t, drawn, "batch 17")
		if width >= 80 {
			require.Contains(t, lines[0], `batch 17 "move to az2": running (cancel, by alice`)
			require.Contains(t, lines[1], "██████████████")
			require.Contains(t, lines[1], "50%  500 of 1,000")
			require.Equal(t, "492 waiting  8 running  499 succeeded  1 failed", lines[2])
			require.Contains(t, lines[3], "12,345 × no room for # in zone")
		}
		out.Reset()
		require.NoError(t, w.screen.draw([]string{"one"}))
		require.True(t, strings.HasPrefix(out.String(), "\x1b["+string(rune('0'+len(lines)))+"A\r\x1b[J"), "drawn over what stands there")
	}
}

func TestWithoutATerminalLinesAreWritten(t *testing.T) {
	var out bytes.Buffer
	w := &watching{app: &app{cli: &cli{}}, screen: &screen{out: &out}, last: half()}
	require.NoError(t, w.screen.draw([]string{w.line()}))
	require.NoError(t, w.screen.draw(nil))
	w.last = &ops.BatchInfo{ID: 18, State: ops.BatchPending}
	require.NoError(t, w.screen.draw([]string{w.line()}))
	require.Equal(t, "batch 17 \"move to az2\": running, 50% (500 of 1000), 492 waiting, 8 running, 499 succeeded, 1 failed\n"+
		"batch 18: pending (open for more tasks), no tasks\n", out.String())
}

func TestBatchVerdict(t *testing.T) {
	want := map[ops.BatchState]int{ops.BatchSucceeded: exitWell, ops.BatchCancelled: exitCancelled}
	for _, s := range ops.BatchStates() {
		if !s.Ended() {
			continue
		}
		code, ok := want[s]
		if !ok {
			code = exitTask
		}
		require.Equal(t, code, (&app{}).fail(batchVerdict(s)), s)
	}
}

// stages is a store whose batch moves on with each look.
type stages struct {
	ops.Batches
	looks []any // *ops.BatchInfo, or an error
}

func (s *stages) GetBatch(context.Context, task.BatchID) (*ops.BatchInfo, error) {
	next := s.looks[0]
	if len(s.looks) > 1 {
		s.looks = s.looks[1:]
	}
	if err, ok := next.(error); ok {
		return nil, err
	}
	return next.(*ops.BatchInfo), nil
}

func (s *stages) BatchFailures(context.Context, task.BatchID, int) ([]ops.FailureGroup, error) {
	return []ops.FailureGroup{{Signature: "no room for #", N: 1, Example: 3}}, nil
}

// watched watches a batch through its stages, and gives what was printed.
func watched(t *testing.T, output string, looks ...any) (string, error) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()
	a := &app{cli: &cli{Output: output, LogLevel: "error"}, out: file, err: file}
	err = a.watchBatch(t.Context(), &stages{looks: looks}, 17, time.Minute)
	out, readErr := os.ReadFile(file.Name())
	require.NoError(t, readErr)
	return string(out), err
}

func TestWatchGoesOnWhileTheStoreIsAway(t *testing.T) {
	end := *half()
	now := time.Now()
	end.State, end.Live, end.Waiting, end.Running, end.Succeeded, end.EndedAt = ops.BatchPartiallyFailed, 0, 0, 0, 999, &now
	away := errors.New("connection refused")
	out, err := watched(t, "table", half(), away, away, half(), &end)
	var f *failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, exitTask, f.code)
	require.Equal(t, "batch 17 \"move to az2\": running, 50% (500 of 1000), 492 waiting, 8 running, 499 succeeded, 1 failed\n"+
		"batch 17 \"move to az2\": partially_failed, 100% (1000 of 1000), 999 succeeded, 1 failed\n"+
		"1 × no room for # (as task 3)\n", out)

	out, err = watched(t, "json", half(), &end)
	require.Error(t, err)
	require.Equal(t, 1, strings.Count(out, `"id": 17`), "one document")
	require.Contains(t, out, `"signature": "no room for #"`)
	out, err = watched(t, "jsonl", half(), &end)
	require.Error(t, err)
	require.Equal(t, 2, strings.Count(out, "\n"))

	_, err = watched(t, "table", half(), ops.ErrNoBatch)
	require.ErrorIs(t, err, ops.ErrNoBatch)
}

func TestSendingShowsHowFarItIs(t *testing.T) {
	var out bytes.Buffer
	from := &source{size: 200}
	from.read.Store(50)
	s := &sending{out: &screen{out: &out, width: 80}, from: from, began: time.Now().Add(-10 * time.Second), every: time.Hour}
	s.shown = time.Now()
	s.show(100)
	require.Empty(t, out.String(), "not too often")
	s.every = 0
	s.show(1000)
	require.Contains(t, out.String(), "25%  1,000 tasks sent, ")
	require.Contains(t, out.String(), "/s\n")
	from.size = 0
	out.Reset()
	s.show(1000)
	require.NotContains(t, out.String(), "%")
	out.Reset()
	s.end()
	require.Equal(t, "\x1b[1A\r\x1b[J", out.String())
}

func TestLeftOver(t *testing.T) {
	well, gone := ops.Report{ID: 1, Became: "pending"}, ops.Report{ID: 2, Error: "no such task", Missing: true}
	refused := ops.Report{ID: 3, Error: "the type \"a\" has no rollback"}
	require.NoError(t, leftOver([]ops.Report{well, well}))
	require.EqualError(t, leftOver([]ops.Report{well, gone}), "task 2: no such task (or its retention is over)")
	require.EqualError(t, leftOver([]ops.Report{gone, gone}), "2 of 2 tasks do not exist (or their retention is over)")
	require.EqualError(t, leftOver([]ops.Report{well, refused}), `task 3: the type "a" has no rollback`)
	require.EqualError(t, leftOver([]ops.Report{refused, refused, well}), "2 of 3 tasks were not changed")
	require.EqualError(t, leftOver([]ops.Report{refused, gone, well}), "1 of 3 tasks were not changed, and 1 do not exist")
}

func TestAnInterruptEndsReading(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	s := &source{file: r}
	ctx, cancel := context.WithCancel(t.Context())
	defer s.until(ctx)()
	_, err = w.WriteString("{}\n")
	require.NoError(t, err)
	line := make([]byte, 3)
	_, err = io.ReadFull(s, line)
	require.NoError(t, err)
	require.Equal(t, int64(3), s.read.Load())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err = s.Read(line) // nothing comes any more
	require.ErrorIs(t, err, context.Canceled)

	whole := &source{file: strings.NewReader("{}\n{}\n")}
	release := whole.until(t.Context())
	got, err := io.ReadAll(whole)
	require.NoError(t, err)
	require.Equal(t, "{}\n{}\n", string(got))
	release()
}
