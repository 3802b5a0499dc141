package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// The test binary runs itself as a child that is killed, or that migrates beside others.
const (
	childWork  = "LEASEHOLD_SQLITE_CHILD" // what to do
	childPath  = "LEASEHOLD_SQLITE_PATH"
	childPoint = "LEASEHOLD_SQLITE_POINT" // the failpoint at which it kills itself
)

func childCommand(t *testing.T, work, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(bounded(t, time.Minute), self)
	cmd.Env = append(os.Environ(), childWork+"="+work, childPath+"="+path)
	return cmd
}

// child is the child's main.
func child(work string) int {
	ctx := context.Background()
	s, err := Open(ctx, Options{Path: os.Getenv(childPath), Create: true, Busy: time.Minute, Fail: childFails})
	if err == nil {
		switch work {
		case "migrate":
			_, err = s.Migrator().Up(ctx)
		case "settle":
			err = childSettles(ctx, s)
		case "batch":
			err = childCreates(ctx, s)
		default:
			err = fmt.Errorf("unknown work %q", work)
		}
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childFails dies at its point without another word, and says where it passes.
func childFails(point string) error {
	if point == os.Getenv(childPoint) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		select {} // until the signal arrives
	}
	_, err := fmt.Fprintln(os.Stdout, point)
	return err
}

// childSettles claims twenty rows at a time and settles them, half of them for good, until it is killed. Once all is done it waits for that, or
// for its parent's end: on a busy machine the parent may be late.
func childSettles(ctx context.Context, s *Store) error {
	session, err := s.Join(ctx, store.Agent{Name: "child", Presence: time.Hour})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(os.Stdout, "session", session); err != nil {
		return err
	}
	for number := int64(1); ; number++ {
		c := claimOf(session, number)
		c.Wants[0].N = 20
		tasks, err := s.Claim(ctx, c)
		if err == nil && len(tasks) == 0 {
			_, err = io.Copy(io.Discard, os.Stdin)
			return err
		}
		if err != nil {
			return err
		}
		if _, err := s.Settle(ctx, session, childSettlements(tasks)); err != nil {
			return err
		}
	}
}

// childSettlements finishes tasks with an even id, and those that were tried before; the rest are due again.
func childSettlements(tasks []task.Task) []store.Settlement {
	all := make([]store.Settlement, len(tasks))
	for i, t := range tasks {
		all[i] = succeeded(t)
		if t.ID%2 == 1 && t.Attempt == 1 {
			all[i].Next = task.Transition{State: task.StateRetryPending, Attempt: 1, EverStarted: true}
			all[i].Outcome = task.Outcome{Verdict: task.Failed, Error: "it broke"}
		}
	}
	return all
}

const crashRows = 300

// startCrashing starts a child that settles, and returns its session and what it prints.
func startCrashing(t *testing.T, h *harness, point string) (*exec.Cmd, task.Session, *bufio.Scanner) {
	t.Helper()
	fill(t, h, crashRows)
	cmd := childCommand(t, "settle", h.path)
	cmd.Env = append(cmd.Env, childPoint+"="+point)
	_, err := cmd.StdinPipe() // open until the child is waited for
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	number, err := strconv.ParseInt(strings.TrimPrefix(lines.Text(), "session "), 10, 64)
	require.NoError(t, err)
	return cmd, task.Session(number), lines
}

// dead waits for the child, which must have been killed.
func dead(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGKILL, status.Signal(), "it was killed, and did not exit")
}

// whole checks that every row is there once, with the history that its state implies.
func whole(t *testing.T, h *harness) {
	t.Helper()
	require.Equal(t, crashRows, h.count(t, "SELECT count(*) FROM tasks"))
	require.Equal(t, crashRows, h.count(t, "SELECT count(DISTINCT id) FROM tasks"))
	require.Equal(t, h.count(t, "SELECT count(*) FROM tasks WHERE id % 2 = 1 AND (attempt = 2 OR state = 'retry_pending')"),
		h.count(t, "SELECT count(*) FROM attempt WHERE outcome = 'failed'"))
	var verdict string
	require.NoError(t, h.app.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict))
	require.Equal(t, "ok", verdict)
}

func TestAKillAtEachFailpointLosesNothing(t *testing.T) {
	t.Parallel()
	for _, point := range failpoints() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			cmd, session, lines := startCrashing(t, h, point)
			for lines.Scan() {
				continue
			}
			require.NoError(t, lines.Err())
			dead(t, cmd)
			whole(t, h)

			// The one whose reply was lost asks again, as the loop does.
			var tasks []task.Task
			columns, _, _ := strings.Cut(h.sql.Get.Text, ",\n    finished_at")
			rows, err := h.app.QueryContext(t.Context(), columns+" FROM tasks WHERE session = ?", int64(session))
			require.NoError(t, err)
			require.NoError(t, eachRow(rows, scanTasks(&tasks)))
			require.Len(t, tasks, 20)
			want := store.Applied
			for i := range tasks {
				if !tasks[i].State.Running() {
					want = store.Ended
					tasks[i].Fence--
				}
			}
			answers, err := h.Settle(t.Context(), session, childSettlements(tasks))
			require.NoError(t, err)
			require.Equal(t, slices.Repeat([]store.Answer{want}, 20), answers)
			require.Equal(t, want == store.Ended, point == failCommitted, "the commit decides")
			whole(t, h)
			require.Equal(t, 10, h.count(t, "SELECT count(*) FROM task_archive"))
		})
	}
}

func TestAKillAnywhereLosesNothing(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 8, 23, 51} { // lines that the child prints; six for each settlement
		t.Run(strconv.Itoa(after), func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			cmd, session, lines := startCrashing(t, h, "")
			for range after {
				require.True(t, lines.Scan())
			}
			require.NoError(t, cmd.Process.Kill())
			for lines.Scan() { // what it still printed
				continue
			}
			dead(t, cmd)
			whole(t, h)

			// Another agent reaps what it held, and finishes the rest.
			mine, err := h.Join(t.Context(), store.Agent{Name: "a", Presence: time.Hour})
			require.NoError(t, err)
			require.NoError(t, h.Leave(t.Context(), session))
			reaped, err := h.Sweep(t.Context(), mine, 1000, time.Minute, calm)
			require.NoError(t, err)
			settlements := make([]store.Settlement, len(reaped))
			for i, s := range reaped {
				require.False(t, s.Present)
				settlements[i] = released(s.Task)
				settlements[i].Next.Attempt = s.Attempt - 1
			}
			if len(settlements) > 0 {
				_, err = h.Settle(t.Context(), mine, settlements)
				require.NoError(t, err)
			}
			require.NoError(t, childFinishes(t, h.Store, mine))
			whole(t, h)
			require.Equal(t, crashRows, h.count(t, "SELECT count(*) FROM task_archive WHERE state = 'succeeded'"))
		})
	}
}

func childFinishes(t *testing.T, s *Store, session task.Session) error {
	t.Helper()
	for number := int64(1); ; number++ {
		tasks, err := s.Claim(t.Context(), claimOf(session, number))
		if err != nil || len(tasks) == 0 {
			return err
		}
		if _, err := s.Settle(t.Context(), session, childSettlements(tasks)); err != nil {
			return err
		}
	}
}

// childCreates inserts a batch of crashRows rows, and says how far it is.
func childCreates(ctx context.Context, s *Store) error {
	_, err := s.CreateBatch(ctx, store.BatchRequest{FinishType: "done"}, func(yield func(store.EnqueueRequest, error) bool) {
		for range crashRows {
			if !yield(store.EnqueueRequest{Type: "x"}, nil) {
				return
			}
		}
	}, func(n int64) {
		if err := childFails(fmt.Sprint(n, " rows")); err != nil {
			panic(err)
		}
	})
	return err
}

// Of a batch whose maker is killed there is nothing, or all of it.
func TestAKillWhileABatchIsMade(t *testing.T) {
	t.Parallel()
	for point, rows := range map[string]int{"200 rows": 0, "300 rows": 0, failCommit: 0, failCommitted: crashRows} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			cmd := childCommand(t, "batch", h.path)
			cmd.Env = append(cmd.Env, childPoint+"="+point)
			require.NoError(t, cmd.Start())
			dead(t, cmd)
			require.Equal(t, rows, h.count(t, "SELECT count(*) FROM task"))
			require.Equal(t, min(rows, 1), h.count(t, "SELECT count(*) FROM batch"))
			counted(t, h)
			id := h.batchOf(t, 1)
			_, err := h.CancelBatch(t.Context(), id, "")
			require.NoError(t, err, "the next process finds the file unlocked")
		})
	}
}

// An agent that is killed while it completes a batch leaves the batch as it was, or completed with one finish task.
func TestAKillWhileABatchEnds(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, "INSERT INTO batch (finish_type) VALUES ('done')"))
	for _, point := range h.BatchFailpoints() {
		broken := errors.New(point)
		h.Fail(func(at string) error {
			if at == point {
				return broken
			}
			return nil
		})
		_, err := h.Fold(t.Context(), 10)
		require.ErrorIs(t, err, broken)
		ended := 0
		if point == failCommitted {
			ended = 1
		}
		require.Equal(t, ended, h.count(t, "SELECT count(*) FROM batch WHERE ended_at IS NOT NULL"))
		require.Equal(t, ended, h.count(t, "SELECT count(*) FROM task WHERE type = 'done'"))
	}
	h.Fail(nil)
	folded, err := h.Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, folded.Ended)
	require.Equal(t, 1, h.count(t, "SELECT count(*) FROM task WHERE type = 'done'"))
}
