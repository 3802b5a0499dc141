package guardian

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/command/processes"
	"github.com/leasehold/leasehold/internal/lease"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Argument {
		syscall.Exit(Main()) // os.Exit would have the race detector wait for a second
	}
	goleak.VerifyTestMain(m)
}

// within bounds what has to happen on a busy machine.
const within = 20 * time.Second

// until waits until it is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for late := time.After(within); !so(); {
		select {
		case <-look.C:
		case <-late:
			require.FailNow(t, "not within "+within.String(), what)
		}
	}
}

// scene is a guardian and what it watches.
type scene struct {
	*Guardian
	t     *testing.T
	log   *memory
	clock lease.Clock
}

// memory is a log that can be read meanwhile.
type memory struct {
	mu   sync.Mutex
	text strings.Builder
}

func (m *memory) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.Write(p)
}

func (m *memory) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.String()
}

func newScene(t *testing.T, change ...func(*Options)) *scene {
	t.Helper()
	s := &scene{t: t, log: &memory{}, clock: lease.BootClock()}
	o := Options{Argv: Self(), Run: processes.NewRun(), Log: slog.New(slog.NewTextHandler(s.log, nil))}
	for _, c := range change {
		c(&o)
	}
	s.Guardian = Start(o)
	t.Cleanup(s.Close)
	return s
}

// sleeper is a process group that the test has started.
type sleeper struct {
	cmd    *exec.Cmd
	number uint64
	from   time.Duration
	ended  chan struct{}
}

func (s *scene) sleeper() *sleeper {
	s.t.Helper()
	p := &sleeper{ended: make(chan struct{})}
	var err error
	p.number, err = s.Begin(0, s.clock.Now()+time.Hour)
	require.NoError(s.t, err)
	p.from = s.clock.Now()
	p.cmd = exec.Command("sleep", "1000")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(s.t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// watched registers the process with the guardian. Its window ends in left.
func (s *scene) watched(p *sleeper, left time.Duration) *sleeper {
	now := s.clock.Now()
	s.Watch(p.number, Group{ID: p.cmd.Process.Pid, End: now + left, From: p.from, To: now})
	return p
}

func (p *sleeper) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// killed waits until it has been killed and gives how long that took from since on.
func (s *scene) killed(p *sleeper, since time.Duration) time.Duration {
	s.t.Helper()
	until(s.t, "killed", p.dead)
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(s.t, ok)
	require.Equal(s.t, syscall.SIGKILL, status.Signal())
	return s.clock.Now() - since
}

func TestWindowEnds(t *testing.T) {
	s := newScene(t)
	other := s.watched(s.sleeper(), time.Hour)
	began := s.clock.Now()
	p := s.watched(s.sleeper(), lease.KillMargin+300*time.Millisecond)
	require.False(t, s.Overdue(p.number))
	require.GreaterOrEqual(t, s.killed(p, began), 300*time.Millisecond)
	require.True(t, s.Overdue(p.number))
	require.False(t, other.dead())
	require.False(t, s.Overdue(other.number))
	s.Over(p.number)
	s.Over(other.number)
}

func TestWindowMoves(t *testing.T) {
	s := newScene(t)
	p := s.watched(s.sleeper(), lease.KillMargin+500*time.Millisecond)
	later := s.watched(s.sleeper(), time.Hour)
	began := s.clock.Now()
	s.Move(p.number, began+time.Hour)
	s.Move(later.number, began+lease.KillMargin+time.Second)
	require.GreaterOrEqual(t, s.killed(later, began), time.Second)
	require.False(t, p.dead(), "its time would have come before")
	require.False(t, s.Overdue(p.number))
	s.Over(p.number)
	s.Over(later.number)
}

// When presence ends, the guardian kills the process groups that it watches, and none that is over.
func TestPresenceEnds(t *testing.T) {
	s := newScene(t)
	began := s.clock.Now()
	s.Presence(began + time.Hour)
	p, over := s.watched(s.sleeper(), time.Hour), s.watched(s.sleeper(), time.Hour)
	s.Over(over.number)
	s.Presence(began + lease.KillMargin + 300*time.Millisecond)
	require.GreaterOrEqual(t, s.killed(p, began), 300*time.Millisecond)
	require.False(t, over.dead())
	require.True(t, s.Overdue(p.number))
	s.Presence(s.clock.Now() + time.Hour)
	require.True(t, s.Overdue(p.number), "whatever comes later")
	s.Over(p.number)
}

func TestGuardianIsStartedAgain(t *testing.T) {
	s := newScene(t)
	p := s.watched(s.sleeper(), time.Hour)
	s.Presence(s.clock.Now() + time.Hour)
	for range 3 {
		first := s.PID()
		require.NoError(t, unix.Kill(first, unix.SIGKILL))
		until(t, "another guardian", func() bool { pid := s.PID(); return pid != 0 && pid != first })
		require.False(t, p.dead())
	}
	require.Contains(t, s.log.String(), "level=ERROR")
	require.Contains(t, s.log.String(), "signal: killed")
	began := s.clock.Now()
	s.Move(p.number, began+lease.KillMargin)
	s.killed(p, began)
	s.Over(p.number)
}

// A new guardian process receives all groups again, with their own times.
func TestNewGuardianKnowsAll(t *testing.T) {
	s := newScene(t)
	began := s.clock.Now()
	soon := s.watched(s.sleeper(), lease.KillMargin+1500*time.Millisecond)
	late := s.watched(s.sleeper(), time.Hour)
	over := s.watched(s.sleeper(), lease.KillMargin+1500*time.Millisecond)
	s.Over(over.number)
	first := s.PID()
	require.NoError(t, unix.Kill(first, unix.SIGKILL))
	require.GreaterOrEqual(t, s.killed(soon, began), 1500*time.Millisecond)
	require.False(t, late.dead())
	require.False(t, over.dead())
	s.Presence(s.clock.Now())
	s.killed(late, 0)
	s.Over(soon.number)
	s.Over(late.number)
}

// A guardian that does not answer any more is none.
func TestSilentGuardianIsReplaced(t *testing.T) {
	s := newScene(t, func(o *Options) { o.patience = 100 * time.Millisecond })
	p := s.watched(s.sleeper(), time.Hour)
	first := s.PID()
	require.NoError(t, unix.Kill(first, unix.SIGSTOP))
	until(t, "another guardian", func() bool {
		s.Presence(s.clock.Now() + time.Hour)
		pid := s.PID()
		return pid != 0 && pid != first
	})
	s.Move(p.number, s.clock.Now())
	s.killed(p, 0)
	s.Over(p.number)
}

// One that reads nothing any more does not hold the agent up, and is replaced when its pipe is full.
func TestFullPipe(t *testing.T) {
	s := newScene(t, func(o *Options) { o.patience = 100 * time.Millisecond })
	p := s.watched(s.sleeper(), time.Hour)
	first := s.PID()
	require.NoError(t, unix.Kill(first, unix.SIGSTOP))
	end := s.clock.Now() + time.Hour
	var most time.Duration
	for range 4 * pipeSize / recordSize {
		began := time.Now()
		s.Move(p.number, end)
		most = max(most, time.Since(began))
	}
	require.Less(t, most, within/10, "no call waits")
	until(t, "another guardian", func() bool { pid := s.PID(); return pid != 0 && pid != first })
	s.Move(p.number, s.clock.Now())
	s.killed(p, 0)
	s.Over(p.number)
}

// The guardian process reads what was written while the pipe was full, and in order.
func TestBacklogIsRead(t *testing.T) {
	s := newScene(t)
	p := s.watched(s.sleeper(), lease.KillMargin+time.Hour)
	pid := s.PID()
	require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	now := s.clock.Now()
	for range 2 * pipeSize / recordSize {
		s.Move(p.number, now+time.Hour)
	}
	s.Move(p.number, now)
	require.NoError(t, unix.Kill(pid, unix.SIGCONT))
	s.killed(p, 0)
	require.Equal(t, pid, s.PID())
	s.Over(p.number)
}

func TestNoGuardian(t *testing.T) {
	for name, argv := range map[string][]string{
		"no such program":     {filepath.Join(t.TempDir(), "none"), "leasehold", Argument},
		"it ends at once":     {"/bin/sh", "sh", "-c", "exit 3"},
		"it is not one":       {"/bin/sh", "sh", "-c", "exec sleep 1000"},
		"no argument list":    nil,
		"it says other words": {"/bin/sh", "sh", "-c", "echo hello; exec sleep 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(o *Options) { o.Argv = argv; o.begin = 50 * time.Millisecond })
			_, err := s.Begin(0, time.Hour)
			require.ErrorContains(t, err, "no guardian process is running: ")
			require.Zero(t, s.PID())
			s.Close()
			_, err = s.Begin(0, time.Hour)
			require.ErrorContains(t, err, "the agent is stopping")
			require.NotContains(t, s.log.String(), "level=WARN")
		})
	}
}

// What ends an agent does not end its guardian, and it keeps nothing of the agent's.
func TestGuardianStandsAlone(t *testing.T) {
	held, err := os.Create(filepath.Join(t.TempDir(), "held"))
	require.NoError(t, err)
	defer held.Close()
	s := newScene(t)
	_, err = s.Begin(0, s.clock.Now()+time.Hour)
	require.NoError(t, err)
	pid := s.PID()
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE} {
		require.NoError(t, unix.Kill(pid, sig))
	}
	session, err := unix.Getsid(pid)
	require.NoError(t, err)
	require.Equal(t, pid, session)
	s.Presence(s.clock.Now() + time.Hour)
	until(t, "it answers", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.child.answered.Load() == s.child.sent
	})
	require.Equal(t, pid, s.PID())
	s.Over(1)
}

// Closing takes no time if nothing has to be killed.
func TestClose(t *testing.T) {
	s := newScene(t)
	p := s.watched(s.sleeper(), time.Hour)
	s.Over(p.number)
	pid := s.PID()
	began := time.Now()
	s.Close()
	require.Less(t, time.Since(began), settleFor)
	require.False(t, p.dead())
	require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH)
	s.Close()
}

// An agent that ends and leaves something behind leaves it to its guardian.
func TestCloseWithSomethingLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), DirPrefix+"test")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a"), 0o700))
	s := newScene(t, func(o *Options) { o.Dirs = []string{dir} })
	p := s.watched(s.sleeper(), time.Hour)
	s.Close()
	s.killed(p, 0)
	until(t, "its files are removed", func() bool {
		_, err := os.Lstat(dir)
		return os.IsNotExist(err)
	})
}

// A number that has become another's is not killed.
func TestNumberOfAnother(t *testing.T) {
	s := newScene(t)
	p := s.sleeper()
	if _, known := processes.Started(p.cmd.Process.Pid); !known {
		return // this system does not report when processes were started
	}
	now := s.clock.Now()
	s.Watch(p.number, Group{ID: p.cmd.Process.Pid, End: now, From: p.from - time.Hour, To: p.from - time.Minute})
	mark := s.watched(s.sleeper(), 0)
	s.killed(mark, 0)
	require.False(t, p.dead())
	s.Over(p.number)
	s.Over(mark.number)
}

func TestLeftovers(t *testing.T) {
	temp := t.TempDir()
	file := filepath.Join(temp, DirPrefix+"file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	other := filepath.Join(temp, "other")
	require.NoError(t, os.Mkdir(other, 0o700))
	link := filepath.Join(temp, DirPrefix+"link")
	require.NoError(t, os.Symlink(other, link))
	for _, path := range []string{file, other, link, "", "/", ".", DirPrefix + "relative"} {
		removeDir(path)
	}
	for _, path := range []string{file, other, link} {
		_, err := os.Lstat(path)
		require.NoError(t, err, path)
	}
	dir := filepath.Join(temp, DirPrefix+"dir")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "1", "2"), 0o700))
	require.NoError(t, os.Symlink(other, filepath.Join(dir, "1", "link")))
	removeDir(dir)
	_, err := os.Lstat(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.DirExists(t, other)
}

// A guardian that is started by hand refuses, and says what it is.
func TestMainByHand(t *testing.T) {
	cmd := exec.Command(os.Args[0], Argument)
	cmd.Stdin = strings.NewReader("") // a pipe, but its output is none
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	cmd.Stdout = null
	said, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	text, err := io.ReadAll(said)
	require.NoError(t, err)
	require.Error(t, cmd.Wait())
	require.Equal(t, 2, cmd.ProcessState.ExitCode())
	require.Contains(t, string(text), "started by an agent")
}
