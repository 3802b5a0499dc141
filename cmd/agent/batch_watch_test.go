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
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func TestBar(t *testing.T) {
	require.Equal(t, "░░░░", bar(0, 4))
	require.Equal(t, "░░░░", bar(-1, 4))
	require.Equal(t, "██░░", bar(0.5, 4))
	require.Equal(t, "███░", bar(0.999, 4))
	require.Equal(t, "████", bar(1, 4))
	require.Equal(t, "████", bar(2, 4))
}

// half is a batch of 1,000 that is half done.
func half() *store.BatchInfo {
	return &store.BatchInfo{
		ID: 17, Name: "move to az2", State: store.BatchRunning, Sealed: true, Total: 1000, Live: 500, Waiting: 492, Running: 8,
		Succeeded: 499, Failed: 1,
	}
}

func TestPaceWords(t *testing.T) {
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	var p ops.Pace
	b := half()
	p.Add(b, start)
	require.Empty(t, paceWords(&p, b), "one look says nothing")
	b.Live = 300
	p.Add(b, start.Add(2*time.Second))
	require.Equal(t, []string{"100/s", "about 3.0 s left"}, paceWords(&p, b))
	b.Sealed = false
	require.Equal(t, []string{"100/s"}, paceWords(&p, b))
	b.EndedAt = &start
	require.Empty(t, paceWords(&p, b))
}

func TestPictureFitsTheTerminal(t *testing.T) {
	for _, width := range []int{80, 40, 200} {
		var out bytes.Buffer
		w := &watching{app: &app{cli: &cli{}}, screen: &screen{out: &out, width: width}}
		v := &ops.BatchView{BatchDetail: ops.BatchDetail{
			BatchInfo: half(),
			Failures:  []ops.FailureGroup{{Signature: strings.Repeat("no room for # in zone ", 20), N: 12345, Example: 4211}},
		}}
		v.Operation, v.RequestedBy = "cancel", "alice\x1b[2J"
		require.NoError(t, w.screen.draw(w.picture(v)))
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
	w := &watching{app: &app{cli: &cli{}}, screen: &screen{out: &out}}
	line := func(b *store.BatchInfo) string {
		return w.line(&ops.BatchView{BatchDetail: ops.BatchDetail{BatchInfo: b}})
	}
	require.NoError(t, w.screen.draw([]string{line(half())}))
	require.NoError(t, w.screen.draw(nil))
	require.NoError(t, w.screen.draw([]string{line(&store.BatchInfo{ID: 18, State: store.BatchPending})}))
	require.Equal(t, "batch 17 \"move to az2\": running, 50% (500 of 1000), 492 waiting, 8 running, 499 succeeded, 1 failed\n"+
		"batch 18: pending (open for more tasks), no tasks\n", out.String())
}

// stages is a store whose batch moves on with each look.
type stages struct {
	ops.Batches
	looks []any // *store.BatchInfo, or an error
}

func (s *stages) GetBatch(context.Context, task.BatchID) (*store.BatchInfo, error) {
	next := s.looks[0]
	if len(s.looks) > 1 {
		s.looks = s.looks[1:]
	}
	if err, ok := next.(error); ok {
		return nil, err
	}
	return next.(*store.BatchInfo), nil
}

func (s *stages) BatchFailures(_ context.Context, _ task.BatchID, each func(task.ID, string)) error {
	each(3, "no room for 7")
	return nil
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
	end.State, end.Live, end.Waiting, end.Running, end.Succeeded, end.EndedAt = store.BatchPartiallyFailed, 0, 0, 0, 999, &now
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

	_, err = watched(t, "table", half(), store.ErrNoBatch)
	require.ErrorIs(t, err, store.ErrNoBatch)
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
