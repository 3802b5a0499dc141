package command

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/command/cgroup"
	"github.com/leasehold/leasehold/internal/exec/command/processes"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/pressure"
)

// The fixtures of docs/operations.md, "What is guaranteed when an agent dies". Each names its processes in files pid.*
// and then makes the file ready.
var fixtures = map[string]string{
	"setsid": `echo $$ > pid.leader; setsid sh -c 'echo $$ > pid.away; exec sleep 1000' &
while [ ! -s pid.away ]; do sleep 0.01; done; : > ready; wait`,
	"double fork":  `echo $$ > pid.leader; setsid sh -c 'sleep 1000 & echo $! > pid.away'; : > ready; exec sleep 1000`,
	"ignored TERM": `trap '' TERM; echo $$ > pid.leader; sleep 1000 & echo $! > pid.child; : > ready; wait`,
	"wiped environment": `echo $$ > pid.leader; setsid env -i sh -c 'echo $$ > pid.away; exec sleep 1000' &
while [ ! -s pid.away ]; do sleep 0.01; done; : > ready; wait`,
}

// What is said there, in one table: who survives in what situation. An agent of an ordinary user can look into less, its
// own children between fork and exec among it.
var survivors = []struct {
	cgroups   bool
	user      uint32
	situation string
	survive   []string
}{
	{true, 0, "times out", nil},
	{true, 0, "SIGKILL", nil},
	{true, 0, "SIGSTOP", nil},
	{false, 0, "times out", []string{"wiped environment"}},
	{false, 0, "SIGKILL", []string{"wiped environment"}},
	{false, 0, "SIGSTOP", []string{"wiped environment"}},
	{false, ordinary(), "times out", []string{"wiped environment"}},
	{false, ordinary(), "SIGKILL", []string{"wiped environment"}},
	{false, ordinary(), "SIGSTOP", []string{"wiped environment"}},
}

// haveCgroups reports whether this test may make cgroups.
func haveCgroups() bool {
	tree := cgroup.NewTree()
	defer tree.Close()
	return tree != nil
}

func TestSurvivors(t *testing.T) {
	for _, c := range survivors {
		t.Run(fmt.Sprintf("%s, cgroups %v, user %d", c.situation, c.cgroups, c.user), func(t *testing.T) {
			if c.cgroups && !haveCgroups() {
				return // it takes a cgroup v2 in which this user may make some
			}
			const presence = 3 * time.Second
			a := act(t, part{Cgroups: c.cgroups, User: c.user, Scripts: fixtures, Presence: presence})
			pids := make(map[string][]int)
			for name := range fixtures {
				pids[name] = a.pids(name)
			}
			t.Cleanup(func() {
				for _, name := range c.survive {
					for _, pid := range pids[name] {
						_ = unix.Kill(pid, unix.SIGKILL)
					}
				}
			})
			alive := func() (names []string) {
				for name, list := range pids {
					if slices.ContainsFunc(list, lives) {
						names = append(names, name)
					}
				}
				slices.Sort(names)
				return names
			}
			began := time.Now()
			switch c.situation {
			case "times out":
				fmt.Fprintln(a.in, "its time is over")
				for range fixtures {
					require.Contains(t, a.hear("outcome"), string(task.TimedOut))
				}
				require.Equal(t, c.survive, alive(), "when the last outcome comes")
			case "SIGKILL":
				a.signal(syscall.SIGKILL)
				until(t, "the guardian has seen to all", func() bool { return !lives(a.guardian) })
				require.Equal(t, c.survive, alive())
			case "SIGSTOP":
				_, watch := a.freeze()
				until(t, "the guardian has seen to all", func() bool { return slices.Equal(alive(), c.survive) })
				require.Less(t, watch.Took(), presence, "before presence ends")
				awaitState(t, a.cmd.Process.Pid, 'T')
				a.signal(syscall.SIGCONT)
				for range fixtures {
					require.Contains(t, a.hear("outcome"), "drained the agent was frozen")
				}
			}
			t.Logf("%s after %s", c.situation, time.Since(began).Round(time.Millisecond))
		})
	}
}

// many are 50 attempts, each with a child that left its group.
func many() map[string]string {
	scripts := make(map[string]string)
	for n := range 50 {
		scripts[fmt.Sprint(n)] = fixtures["setsid"]
	}
	return scripts
}

func TestAgentKilledWithMany(t *testing.T) {
	a := act(t, part{Scripts: many()})
	var pids []int
	for name := range many() {
		pids = append(pids, a.pids(name)...)
	}
	require.Len(t, pids, 100)
	watch := pressure.Start()
	a.signal(syscall.SIGKILL)
	until(t, "nothing is left", func() bool { return !slices.ContainsFunc(pids, lives) })
	took := watch.Took()
	t.Logf("none was alive after %s", took.Round(time.Millisecond))
	require.Less(t, took, time.Second)
	until(t, "the guardian ends", func() bool { return !lives(a.guardian) })
	left, err := filepath.Glob(filepath.Join(variable(a.cmd.Env, "TMPDIR"), "*"))
	require.NoError(t, err)
	require.Empty(t, left, "private directories")
}

func variable(env []string, name string) (value string) {
	for _, v := range env {
		if text, ok := strings.CutPrefix(v, name+"="); ok {
			value = text // the last one counts
		}
	}
	return value
}

// A frozen agent's children are dead when its presence is over, and the guardian does not freeze with it.
func TestAgentStoppedWithMany(t *testing.T) {
	const presence = 4 * time.Second
	a := act(t, part{Scripts: many(), Presence: presence})
	var pids []int
	for name := range many() {
		pids = append(pids, a.pids(name)...)
	}
	began, watch := a.freeze()
	until(t, "nothing is left", func() bool { return !slices.ContainsFunc(pids, lives) })
	took := time.Since(began)
	t.Logf("none was alive after %s", took.Round(time.Millisecond))
	require.Less(t, watch.Took(), presence)
	require.Greater(t, took, presence/4, "it had been there until then")
	require.True(t, lives(a.guardian))
	a.signal(syscall.SIGCONT)
	for range 50 {
		require.Contains(t, a.hear("outcome"), "drained the agent was frozen")
	}
}

// An agent that is killed or frozen between a fork and its record to the guardian leaves no process: all are dead when its
// presence ends, or the window if that is earlier.
func TestAgentStopsBeforeItReports(t *testing.T) {
	const length = 6 * time.Second // so that the script is ready before
	for _, c := range []struct {
		signal            syscall.Signal
		cgroups           bool
		presence, timeout time.Duration
		user              uint32
	}{
		{syscall.SIGKILL, true, length, time.Hour, 0}, {syscall.SIGKILL, false, length, time.Hour, 0},
		{syscall.SIGSTOP, true, length, time.Hour, 0}, {syscall.SIGSTOP, false, length, time.Hour, 0},
		{syscall.SIGSTOP, true, time.Hour, length - 3*time.Second, 0}, {syscall.SIGSTOP, false, time.Hour, length - 3*time.Second, 0},
		{syscall.SIGKILL, false, length, time.Hour, ordinary()}, {syscall.SIGSTOP, false, length, time.Hour, ordinary()},
	} {
		t.Run(fmt.Sprintf("%s, cgroups %v, presence %s, user %d", c.signal, c.cgroups, c.presence, c.user), func(t *testing.T) {
			a := act(t, part{
				Cgroups: c.cgroups, User: c.user, Between: c.signal, Presence: c.presence, Timeout: c.timeout,
				Scripts: map[string]string{"one": fixtures["setsid"]},
			})
			if c.signal == syscall.SIGKILL {
				until(t, "the guardian ends", func() bool { return !lives(a.guardian) })
				require.Zero(t, marked(t, a.run))
				return
			}
			awaitState(t, a.cmd.Process.Pid, 'T')
			watch := pressure.Start()
			pids := a.pids("one")
			until(t, "nothing is left", func() bool { return marked(t, a.run) == 0 && !slices.ContainsFunc(pids, lives) })
			require.Less(t, watch.Took(), length)
		})
	}
}

// A process that a command left on purpose, when it ended without being stopped, survives the agent, also where another
// guardian has taken over since.
func TestLeftOnPurpose(t *testing.T) {
	for _, cgroups := range []bool{true, false} {
		a := act(t, part{Cgroups: cgroups, Scripts: map[string]string{
			"daemon": `setsid sh -c 'echo $$ > pid.new; mv pid.new pid.away; exec sleep 1000' > /dev/null 2>&1 &
while [ ! -e pid.away ]; do sleep 0.01; done; : > ready`,
			"other": fixtures["setsid"],
		}})
		daemon, other := a.pids("daemon"), a.pids("other")
		require.Equal(t, "outcome daemon succeeded ", a.hear("outcome"))
		t.Cleanup(func() { _ = unix.Kill(daemon[0], unix.SIGKILL) })
		a.replaceGuardian()
		a.signal(syscall.SIGKILL)
		until(t, "the guardian ends", func() bool { return !lives(a.guardian) })
		require.False(t, slices.ContainsFunc(other, lives))
		require.True(t, lives(daemon[0]))
	}
}

// An agent that is killed while it starts commands and stops others leaves nothing, whatever it was about.
func TestAgentKilledInAStorm(t *testing.T) {
	for round := range 15 {
		p := part{Cgroups: round%3 == 0, Storm: true, Presence: time.Hour}
		if round%3 == 2 {
			p.User = ordinary()
		}
		a := act(t, p)
		<-time.After(time.Duration(10+10*round) * time.Millisecond)
		a.signal(syscall.SIGKILL)
		until(t, "the guardian ends", func() bool { return !lives(a.guardian) })
		require.Zero(t, marked(t, a.run))
	}
}

// A guardian that is killed is there again, and knows what runs.
func TestGuardianKilledThenAgent(t *testing.T) {
	a := act(t, part{Scripts: many()})
	var pids []int
	for name := range many() {
		pids = append(pids, a.pids(name)...)
	}
	a.replaceGuardian()
	require.True(t, slices.ContainsFunc(pids, lives))
	a.signal(syscall.SIGKILL)
	until(t, "the guardian ends", func() bool { return !lives(a.guardian) })
	require.False(t, slices.ContainsFunc(pids, lives))
}

// replaceGuardian kills the guardian and waits until there is another that knows all.
func (a *actor) replaceGuardian() {
	a.t.Helper()
	require.NoError(a.t, unix.Kill(a.guardian, unix.SIGKILL))
	a.guardian = atoi(strings.Fields(a.hear("guardian"))[1])
}

// marked counts the processes of a run, and kills none.
func marked(t *testing.T, run string) (n int) {
	t.Helper()
	_, err := processes.Kill(processes.Run(run), func(uint64) bool {
		n++
		return false
	})
	require.NoError(t, err)
	return n
}
