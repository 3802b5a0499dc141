package command

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/command/guardian"
	"github.com/leasehold/leasehold/internal/exec/command/hide"
	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/pressure"
)

// part is what the test binary is to do as an agent in a process of its own.
type part struct {
	Cgroups  bool
	Scripts  map[string]string // by name; each runs in the directory Dir/name
	Dir      string
	Presence time.Duration  // how long it lasts once the agent is frozen; 0: the agent has none
	Between  syscall.Signal // sent to the agent between a fork and its record to the guardian
	Timeout  time.Duration  // of the scripts; 0: an hour
	Storm    bool           // run short commands all the time
	User     uint32         // whose the agent is; 0: the test's own
}

const partVariable = "LEASEHOLD_TEST_PART"

// agent plays its part until its input ends. It says what happens, a line each.
func agent() {
	hide.Hide() // as main does
	var p part
	if err := json.Unmarshal([]byte(os.Getenv(partVariable)), &p); err != nil {
		panic(err)
	}
	var say sync.Mutex
	send := func(words ...any) {
		say.Lock()
		defer say.Unlock()
		fmt.Println(words...)
	}
	r := newRunner(Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Guardian: guardian.Self()}, p.Cgroups)
	shorten := present(r, p.Presence)
	if p.Between != 0 {
		r.guard.forked = func() {
			shorten()
			_ = syscall.Kill(os.Getpid(), p.Between)
			<-make(chan struct{}) // a thread may go on for a moment
		}
	}
	awaitGuardian(r.guard)
	send("ready", r.guard.run, r.guard.guardian.PID())
	go func() {
		last := r.guard.guardian.PID()
		for again := time.NewTicker(5 * time.Millisecond); ; <-again.C {
			if pid := r.guard.guardian.PID(); pid != 0 && pid != last { // it has started, and knows of all processes
				last = pid
				send("guardian", pid)
			}
		}
	}()
	var leases []*lease.Lease
	var all sync.WaitGroup
	for name, script := range p.Scripts {
		l := exectest.Attempt{Policy: task.Policy{Timeout: cmp.Or(p.Timeout, time.Hour), Stop: 2 * time.Second}}.Lease()
		leases = append(leases, l)
		all.Go(func() {
			c := shell(script)
			c.Dir, c.StopGrace = filepath.Join(p.Dir, name), 100*time.Millisecond
			o := r.Run(l, declared(c), c, func() {})
			send("outcome", name, o.Verdict, o.Error)
		})
	}
	if p.Storm {
		for range 8 {
			go storm(r)
		}
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == shortPresence {
			shorten()
			send(shortPresence, p.Presence)
			continue
		}
		for _, l := range leases {
			l.Stop(&lease.Cause{Verdict: task.TimedOut, Reason: in.Text()})
		}
	}
	all.Wait()
	r.Close()
}

// awaitGuardian waits until the guardian process is there, which takes a while on a slow machine.
func awaitGuardian(g *guard) {
	for late := g.now() + time.Minute; ; {
		h, err := g.begin(anHour(g))
		if err == nil {
			h.over()
			return
		}
		if g.now() > late {
			panic(err)
		}
	}
}

// shortPresence is the line that has the agent shorten its presence.
const shortPresence = "presence"

// present makes the session of an agent present for an hour, again and again: starting commands takes a while on a slow
// machine. shorten ends that, and leaves it d. Without a d there is no presence.
func present(r *Runner, d time.Duration) (shorten func()) {
	if d == 0 {
		return func() {}
	}
	clock := lease.BootClock()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for again := time.NewTicker(100 * time.Millisecond); ; {
			r.Presence(clock.Now() + time.Hour)
			select {
			case <-again.C:
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		r.Presence(clock.Now() + d)
	}
}

// anHour is a window of an hour from now.
func anHour(g *guard) window {
	now := g.now()
	return window{from: now, until: now + time.Hour, end: now + time.Hour}
}

// storm starts commands that end at once, and others that do not.
func storm(r *Runner) {
	for {
		l := exectest.Attempt{}.Lease()
		c := shell("exit 0")
		if rand.N(4) == 0 {
			c = shell("setsid sleep 1000 & exec sleep 1000")
			time.AfterFunc(20*time.Millisecond, func() { l.Stop(&lease.Cause{Verdict: task.Cancelled}) })
		}
		r.Run(l, declared(c), c, func() {})
		l.Close()
	}
}

// actor is such an agent, from outside.
type actor struct {
	t        *testing.T
	cmd      *exec.Cmd
	in       *os.File
	lines    chan string
	run      string
	guardian int
	dir      string
}

// act starts an agent and waits until it is ready.
func act(t *testing.T, p part, change ...func(*exec.Cmd)) *actor {
	t.Helper()
	require.True(t, partsArePlayed)
	home := newHome(t, p.User)
	a := &actor{t: t, lines: make(chan string, 1000), dir: home.dir("work")}
	p.Dir = a.dir
	for name := range p.Scripts {
		home.dir(filepath.Join("work", name))
	}
	doc, err := json.Marshal(p)
	require.NoError(t, err)
	a.cmd = exec.Command(home.program())
	a.cmd.Env = append(os.Environ(), helperVariable+"=agent", partVariable+"="+string(doc), "TMPDIR="+home.dir("tmp"))
	a.cmd.Stderr = os.Stderr
	if p.User != 0 {
		a.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.User, Gid: p.User}}
	}
	for _, c := range change {
		c(a.cmd)
	}
	in, theirs, err := os.Pipe()
	require.NoError(t, err)
	a.cmd.Stdin, a.in = in, theirs
	out, err := a.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, a.cmd.Start())
	require.NoError(t, in.Close())
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer close(a.lines)
		for said := bufio.NewScanner(out); said.Scan(); {
			a.lines <- said.Text()
		}
		_ = a.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = a.in.Close()
		_ = a.cmd.Process.Kill()
		<-over
		until(t, "its guardian ends", func() bool { return a.guardian == 0 || !lives(a.guardian) })
	})
	words := strings.Fields(a.hear("ready"))
	a.run, a.guardian = words[1], atoi(words[2])
	return a
}

// hear waits for a line that begins so.
func (a *actor) hear(word string) string {
	a.t.Helper()
	for late := time.After(2 * time.Minute); ; {
		select {
		case line, ok := <-a.lines:
			require.True(a.t, ok, "the agent ended before it said "+word)
			if strings.HasPrefix(line, word+" ") {
				return line
			}
		case <-late:
			require.FailNow(a.t, "the agent did not say "+word)
		}
	}
}

func (a *actor) signal(s syscall.Signal) {
	a.t.Helper()
	require.NoError(a.t, a.cmd.Process.Signal(s))
}

// freeze stops the agent when its presence has begun to last no longer than part.Presence, and returns when that was.
func (a *actor) freeze() (began time.Time, watch pressure.Watch) {
	a.t.Helper()
	fmt.Fprintln(a.in, shortPresence)
	a.hear(shortPresence)
	began, watch = time.Now(), pressure.Start()
	a.signal(syscall.SIGSTOP)
	return began, watch
}

// pids are the processes that a script has named in its files pid.*, once its file ready is there.
func (a *actor) pids(name string) (pids []int) {
	a.t.Helper()
	until(a.t, name+" is ready", func() bool {
		_, err := os.Stat(filepath.Join(a.dir, name, "ready"))
		return err == nil
	})
	files, err := filepath.Glob(filepath.Join(a.dir, name, "pid.*"))
	require.NoError(a.t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(a.t, err)
		pid := atoi(strings.TrimSpace(string(text)))
		require.True(a.t, lives(pid), "%s runs", file)
		pids = append(pids, pid)
	}
	require.NotEmpty(a.t, pids)
	return pids
}

// lives reports whether a process is there and no zombie.
func lives(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && stat[bytes.LastIndexByte(stat, ')')+2] != 'Z'
}

// until waits until it is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for late := time.After(2 * time.Minute); !so(); {
		select {
		case <-look.C:
		case <-late:
			require.FailNow(t, "not within two minutes", what)
		}
	}
}
