package command

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// scene is an attempt that a script's own progress steers: it makes a FIFO "ready" that the script writes to.
type scene struct {
	t     *testing.T
	dir   string
	lease *lease.Lease
}

func newScene(t *testing.T, a exectest.Attempt) *scene {
	t.Helper()
	s := &scene{t: t, dir: t.TempDir(), lease: a.Lease()}
	require.NoError(t, os.Chmod(s.dir, 0o755))
	require.NoError(t, unix.Mkfifo(filepath.Join(s.dir, "ready"), 0o600))
	t.Cleanup(s.lease.Close)
	return s
}

// run runs the script in the scene's directory. Once it has written a line to ready, then is called with that line.
func (s *scene) run(script string, change func(*task.Command), then func(line string)) task.Outcome {
	s.t.Helper()
	c := shell(script)
	c.Dir = s.dir
	if change != nil {
		change(c)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		line, err := os.ReadFile(filepath.Join(s.dir, "ready"))
		if err == nil {
			then(strings.TrimSpace(string(line)))
		}
	}()
	o := runLease(s.t, s.lease, c)
	<-done
	return o
}

// stop makes a func that stops the attempt.
func (s *scene) stop(v task.Verdict) func(string) {
	return func(string) { s.lease.Stop(&lease.Cause{Verdict: v, Reason: "why"}) }
}

// dead requires that the process has ended, whether or not its parent has noticed.
func dead(t *testing.T, pid int) {
	t.Helper()
	require.Positive(t, pid)
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return
	}
	require.NoError(t, err)
	require.Equal(t, byte('Z'), stat[bytes.LastIndexByte(stat, ')')+2], "process %d lives: %s", pid, stat)
}

func TestStopCauses(t *testing.T) {
	for _, v := range []task.Verdict{task.TimedOut, task.Cancelled, task.Lost, task.Drained, task.Stalled} {
		t.Run(string(v), func(t *testing.T) {
			s := newScene(t, exectest.Attempt{})
			o := s.run("echo working; echo > ready; exec sleep 1000", nil, s.stop(v))
			require.Equal(t, task.Outcome{Verdict: v, Error: "why", Output: "working\n"}, o)
		})
	}
}

func TestExitAfterStop(t *testing.T) {
	for name, c := range map[string]struct {
		onTerm string
		want   task.Outcome
	}{
		"0 with a result":       {`echo 5 > $LEASEHOLD_RESULT_FILE; exit 0`, task.Outcome{Verdict: task.Succeeded, Result: []byte("5")}},
		"0 without a result":    {`exit 0`, task.Outcome{Verdict: task.TimedOut, Error: "why"}},
		"0 with an empty one":   {`: > $LEASEHOLD_RESULT_FILE; exit 0`, task.Outcome{Verdict: task.TimedOut, Error: "why"}},
		"1 with a result":       {`echo 5 > $LEASEHOLD_RESULT_FILE; exit 1`, task.Outcome{Verdict: task.TimedOut, Error: "why"}},
		"rejected after a stop": {`exit 65`, task.Outcome{Verdict: task.TimedOut, Error: "why"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, exectest.Attempt{})
			o := s.run(`trap '`+c.onTerm+`' TERM; echo > ready; while :; do sleep 0.01; done`, nil, s.stop(task.TimedOut))
			o.Output = "" // some shells say that the signal ended their child
			require.Equal(t, c.want, o)
		})
	}
}

func TestTimeoutByTheLease(t *testing.T) {
	o := run(t, exectest.Attempt{Policy: task.Policy{Timeout: 50 * time.Millisecond}}, shell("exec sleep 1000"))
	require.Equal(t, task.TimedOut, o.Verdict)
	require.Contains(t, o.Error, "50ms")
	require.False(t, o.EndUnknown)
}

func TestDeclaredStopSignal(t *testing.T) {
	// The agent catches SIGINT, so commands have its default action. Tests that a script has started with "&" ignore it,
	// commands would inherit that, and a shell cannot trap what it ignored from its start.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGINT)
	t.Cleanup(func() { signal.Stop(interrupts) })
	s := newScene(t, exectest.Attempt{})
	o := s.run(`trap 'echo got INT; exit 0' INT; trap : TERM; echo > ready; while :; do sleep 0.01; done`,
		func(c *task.Command) { c.StopSignal = syscall.SIGINT }, s.stop(task.Cancelled))
	require.Equal(t, task.Outcome{Verdict: task.Cancelled, Error: "why", Output: "got INT\n"}, o)
}

func TestTermIgnored(t *testing.T) {
	s := newScene(t, exectest.Attempt{})
	began := time.Now()
	o := s.run(`trap '' TERM; (while :; do sleep 1000; done) & echo $! > ready; while :; do sleep 1000; done`,
		func(c *task.Command) { c.StopGrace = 50 * time.Millisecond },
		s.stop(task.TimedOut))
	require.Equal(t, task.Outcome{Verdict: task.TimedOut, Error: "why"}, o)
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
}

// The kill comes when the lease says so, however long the declared grace is.
func TestGraceIsCutShort(t *testing.T) {
	var presence atomic.Int64
	presence.Store(math.MaxInt64)
	s := newScene(t, exectest.Attempt{Presence: func() time.Duration { return time.Duration(presence.Load()) }})
	began := time.Now()
	o := s.run(`trap '' TERM; echo > ready; while :; do sleep 1000; done`,
		func(c *task.Command) { c.StopGrace = time.Hour }, func(line string) {
			presence.Store(int64(lease.KillMargin))
			s.stop(task.Lost)(line)
		})
	require.Equal(t, task.Lost, o.Verdict)
	require.Less(t, time.Since(began), 30*time.Second)
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// Grandchildren that hold the pipes do not hang an attempt, and do not outlive it.
func TestGrandchildrenHoldingPipes(t *testing.T) {
	for name, trap := range map[string]string{"polite": "", "deaf": "trap '' TERM; "} {
		t.Run(name, func(t *testing.T) {
			c := shell(trap + `(echo child; while :; do sleep 1000; done) & echo $!; exit 0`)
			c.StopGrace = 20 * time.Millisecond
			began := time.Now()
			o := run(t, exectest.Attempt{}, c)
			require.Equal(t, task.Succeeded, o.Verdict, o.Error)
			require.Less(t, time.Since(began), 30*time.Second)
			for line := range strings.Lines(o.Output) {
				if pid := atoi(strings.TrimSpace(line)); pid > 0 {
					dead(t, pid)
				}
			}
		})
	}
}

// A tree of 50 processes, several generations deep and deaf to TERM, is gone when the attempt is.
func TestTreeOfProcesses(t *testing.T) {
	const script = `trap '' TERM; : > pids
grow() { if [ $1 -gt 0 ]; then (grow $(($1-1))) & fi; sh -c 'echo $$ >> pids; exec sleep 1000' & wait; }
for i in 1 2 3 4 5; do (grow 4) & done
while [ $(wc -l < pids) -lt 25 ]; do sleep 0.01; done
echo > ready; wait`
	s := newScene(t, exectest.Attempt{})
	o := s.run(script, func(c *task.Command) { c.StopGrace = 20 * time.Millisecond }, s.stop(task.TimedOut))
	require.Equal(t, task.TimedOut, o.Verdict, o)
	pids, err := os.ReadFile(filepath.Join(s.dir, "pids"))
	require.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(pids)) {
		dead(t, atoi(strings.TrimSpace(line)))
		n++
	}
	require.GreaterOrEqual(t, n, 25, "with their shells: 50")
}

// What forks all the time cannot outrun the kill.
func TestForkingAllTheTime(t *testing.T) {
	s := newScene(t, exectest.Attempt{})
	o := s.run(`trap '' TERM; echo $$ > group; spin() { while :; do sleep 0.05 & sleep 0.01; done; }; spin & spin & echo > ready; spin`,
		func(c *task.Command) { c.StopGrace = 100 * time.Millisecond }, s.stop(task.Cancelled))
	require.Equal(t, task.Outcome{Verdict: task.Cancelled, Error: "why"}, o)
	group, err := os.ReadFile(filepath.Join(s.dir, "group"))
	require.NoError(t, err)
	require.True(t, groupGone(atoi(strings.TrimSpace(string(group)))))
}

// A process for which another has waited has ended, and not with code 0.
func TestNotOursToWaitFor(t *testing.T) {
	p := &process{pid: os.Getppid(), exited: make(chan struct{})}
	p.reap()
	require.True(t, p.ended())
	require.False(t, p.status().ok())
	p.dir = emptyDir(t)
	a := &attempt{runner: &Runner{}, command: &task.Command{}, process: p}
	o := a.outcome(ending{exit: p.status(), gone: true})
	require.Equal(t, task.Outcome{Verdict: task.Failed, Error: "the process ended with an unknown status"}, o)
}

// emptyDir is a private directory that the test removes.
func emptyDir(t *testing.T) *privateDir {
	t.Helper()
	d, err := makeDir(t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.remove()) })
	return d
}
