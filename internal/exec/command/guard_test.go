package command

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/command/guardian"
	"github.com/leasehold/leasehold/internal/exec/command/processes"
	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// guarded is a runner with a guardian process, and what it logs.
func guarded(t *testing.T) (r *Runner, log *bytes.Buffer) {
	t.Helper()
	require.True(t, partsArePlayed)
	t.Setenv("TMPDIR", t.TempDir())
	log = &bytes.Buffer{}
	r = New(Options{Log: slog.New(slog.NewTextHandler(log, nil)), Guardian: guardian.Self()})
	return r, log
}

// What SIGKILL does not end keeps its slot, its directory and its guardian until it is gone, and is logged once.
func TestStuck(t *testing.T) {
	r, log := guarded(t)
	var dead atomic.Bool
	r.shared.gone = func(pgid int) bool { return groupGone(pgid) && dead.Load() }
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	c := shell("exec sleep 1000")
	l.Stop(&lease.Cause{Verdict: task.TimedOut, Reason: "why"})
	o := r.Run(l, declared(c), c, func() {})
	require.Nil(t, o.Stuck, "it never started")

	l = exectest.Attempt{}.Lease()
	defer l.Close()
	c.StopGrace = time.Millisecond
	o = r.Run(l, declared(c), c, func() { l.Stop(&lease.Cause{Verdict: task.TimedOut, Reason: "why"}) })
	require.Equal(t, task.TimedOut, o.Verdict)
	require.True(t, o.EndUnknown)
	require.Contains(t, o.Error, "still there after SIGKILL")
	require.NotNil(t, o.Stuck)
	select {
	case <-o.Stuck:
		require.Fail(t, "it is not gone yet")
	default:
	}
	require.Equal(t, 1, r.dirs.out)
	dead.Store(true)
	<-o.Stuck
	require.Zero(t, r.dirs.out)
	r.Close()
	require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), log)
	require.Contains(t, log.String(), "are gone")
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A runner that ends does not wait for what is stuck for ever.
func TestCloseWithStuck(t *testing.T) {
	r, _ := guarded(t)
	r.shared.gone = func(int) bool { return false }
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	c := shell("exit 0")
	c.StopGrace = time.Millisecond
	o := r.Run(l, declared(c), c, func() {})
	require.Equal(t, task.Succeeded, o.Verdict)
	require.NotNil(t, o.Stuck)
	began := time.Now()
	r.Close()
	require.Less(t, time.Since(began), 30*time.Second)
}

func TestNoGuardianNoCommand(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	r := New(Options{Log: slog.New(slog.DiscardHandler), Guardian: []string{"/nonexistent/program", "leasehold", "guardian"}})
	defer r.Close()
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	c := shell("touch " + marker)
	o := r.Run(l, declared(c), c, func() { require.Fail(t, "it was started") })
	require.Equal(t, task.Undelivered, o.Verdict)
	require.True(t, o.NeverStarted)
	require.Contains(t, o.Error, "no guardian process is running: start it: ")
	require.NoFileExists(t, marker)
}

// The guardian gets a record of each attempt and its end, also of a start that failed, and of each lease that moves.
func TestGuardianReads(t *testing.T) {
	r, _ := guarded(t)
	tree := r.guard.cgroups.Path()
	defer func() {
		r.Close()
		if tree != "" {
			require.NoDirExists(t, tree)
		}
	}()
	for _, script := range []string{"exit 0", "exit 1"} {
		l := exectest.Attempt{}.Lease()
		c := shell(script)
		r.Run(l, declared(c), c, func() {})
		l.Close()
	}
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	c := shell("")
	c.Dir = "/nonexistent"
	require.Equal(t, task.Undelivered, r.Run(l, declared(c), c, func() {}).Verdict)
	require.Zero(t, r.guard.guardian.Watched())
	if tree != "" {
		entries, err := filepath.Glob(filepath.Join(tree, "[0-9]*"))
		require.NoError(t, err)
		require.Len(t, entries, 1, "cgroups are used again")
	}
}

// A lease that moves with each ping moves in the guardian, too; else it would kill what goes on.
func TestGuardianReadsMoves(t *testing.T) {
	r, _ := guarded(t)
	defer r.Close()
	policy := task.Policy{Timeout: time.Hour, Heartbeat: time.Second, Stop: 2 * time.Second}
	l := exectest.Attempt{Policy: policy}.Lease()
	defer l.Close()
	c := shell(fmt.Sprintf("exec sleep %f", (policy.Window(task.Run) + time.Second).Seconds()))
	over := make(chan struct{})
	go func() {
		for again := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-again.C:
				l.Ping(store.Ping{})
			case <-over:
				again.Stop()
				return
			}
		}
	}()
	o := r.Run(l, declared(c), c, func() {})
	close(over)
	require.Equal(t, task.Outcome{Verdict: task.Succeeded}, o)
}

// A cgroup that nothing can be started in costs no attempt.
func TestRefusals(t *testing.T) {
	for _, err := range []error{syscall.EACCES, syscall.ENODEV, syscall.ENOSYS} {
		require.True(t, refusal(err))
	}
	for _, err := range []error{nil, syscall.ENOENT, syscall.E2BIG, syscall.EAGAIN, syscall.ENOMEM, syscall.ETXTBSY, errors.New("else")} {
		require.False(t, refusal(err))
	}
}

// However many wait, one look serves all that it began after.
func TestOneLookServesMany(t *testing.T) {
	if !processes.Marks {
		return // nothing is looked for here
	}
	const waiting = 100
	begun, proceed := make(chan struct{}, 10), make(chan struct{})
	var looks atomic.Int32
	left := map[uint64]int{7: 2} // is found twice
	s := &seeker{kill: func(_ processes.Run, wanted func(uint64) bool) (map[uint64]int, error) {
		looks.Add(1)
		begun <- struct{}{}
		<-proceed
		found := make(map[uint64]int)
		for n := range left {
			if wanted(n) && left[n] > 0 {
				found[n] = 1
				left[n]--
			}
		}
		return found, nil
	}}
	log := slog.New(slog.DiscardHandler)
	var all sync.WaitGroup
	all.Go(func() { require.True(t, s.clear(1, time.Hour, log)) })
	<-begun
	for n := range waiting {
		all.Go(func() { require.True(t, s.clear(uint64(n), time.Hour, log)) })
	}
	until(t, "all wait", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waiting) == waiting
	})
	close(proceed)
	all.Wait()
	s.looks.Wait()
	require.EqualValues(t, 4, looks.Load(), "the first, one for all, two for what was found")
}

// A search that does not end delays no caller beyond its bound.
func TestLookThatHangs(t *testing.T) {
	if !processes.Marks {
		return // nothing is looked for here
	}
	proceed := make(chan struct{})
	s := &seeker{kill: func(processes.Run, func(uint64) bool) (map[uint64]int, error) {
		<-proceed
		return map[uint64]int{}, nil
	}}
	var log bytes.Buffer
	for range 2 {
		require.True(t, s.clear(1, time.Millisecond, slog.New(slog.NewTextHandler(&log, nil))))
	}
	require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"))
	close(proceed)
	s.looks.Wait()
}

// The parent of the private directories is created again after it was removed, unless something else has its name.
func TestParentOfDirectories(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := dirs{parent: newParent(t.TempDir())}
	require.NoDirExists(t, s.parent)
	first, err := s.take(nil)
	require.NoError(t, err)
	require.Equal(t, s.parent, filepath.Dir(first.path))
	info, err := os.Stat(s.parent)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o711), info.Mode().Perm())
	require.NoError(t, os.RemoveAll(s.parent))
	second, err := s.take(nil)
	require.NoError(t, err)
	require.NoError(t, s.close())
	require.DirExists(t, second.path, "it is in use")
	require.NoError(t, s.give(second))
	require.DirExists(t, s.parent)
	require.NoError(t, s.give(first))
	require.NoDirExists(t, s.parent)

	for name, put := range map[string]func(path string) error{
		"a link to a directory": func(path string) error { return os.Symlink(t.TempDir(), path) },
		"a link to nowhere":     func(path string) error { return os.Symlink("/nonexistent/x", path) },
		"a file":                func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		s = dirs{parent: newParent(t.TempDir())}
		require.NoError(t, put(s.parent))
		_, err = s.take(nil)
		require.ErrorContains(t, err, "belongs to another user", name)
	}
}
