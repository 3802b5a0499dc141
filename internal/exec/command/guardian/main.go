package guardian

import (
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/command/cgroup"
	"github.com/leasehold/leasehold/internal/exec/command/hide"
	"github.com/leasehold/leasehold/internal/exec/command/processes"
	"github.com/leasehold/leasehold/internal/lease"
)

// Argument is the one argument that makes a program a guardian: its main calls Main then.
const Argument = "guardian"

// How often the guardian looks. While nothing runs it sleeps until a record comes. While something does, it reads
// only now and then what the agent has said, so that a task costs it no wake-up: the pipe holds what comes meanwhile,
// also when the agent is gone, and nothing has to be known sooner than it is to be killed.
const (
	readEvery = 50 * time.Millisecond
	// longestSleep bounds how late the guardian notices that the machine was suspended, which poll(2) does not count.
	longestSleep = time.Second
	firstTry     = 2 * time.Millisecond // after which a killed group is looked at, then twice that, and so on
	lastTry      = time.Second
	settleFor    = 500 * time.Millisecond // of looking for marks without finding any, once the agent is gone or its presence
	halfwayIn    = 10 * time.Second       // how long a child between fork and exec is waited for
)

// What the guardian says, a byte each.
const (
	sayReady   = 'r' // it watches
	sayPresent = 'p' // a presence was read
)

// Main is a guardian: it watches until its standard input ends and nothing that it has to kill is left, and returns the
// exit code.
func Main() int {
	if !fifo(0) || !fifo(1) {
		fmt.Fprintln(os.Stderr, "leasehold: a guardian can only be started by an agent")
		return 2
	}
	// What ends the agent must not end its guardian before it has seen to the agent's children. SIGPIPE comes when
	// its answers are not read any more.
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2)
	rename()
	hide.Hide()
	h, err := readHello(os.Stdin)
	if err != nil {
		return 1 // the agent is gone already
	}
	l := &loop{
		hello: h, watch: newWatch(), clock: lease.BootClock(), agent: processes.Arguments(os.Getppid()),
		input: input{buffer: make([]byte, 0, 64<<10)}, finds: make(chan finding, 1), asks: make(chan question),
	}
	for fd := range 2 {
		if err := unix.SetNonblock(fd, true); err != nil {
			return 1
		}
	}
	l.say(sayReady)
	l.run()
	return 0
}

func fifo(fd int) bool {
	var s unix.Stat_t
	return unix.Fstat(fd, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFIFO
}

// rename gives the process a name of its own, where that can be done: `pkill -9 leasehold` is to end the agent, and not
// its guardian with it. It comes before the process is hidden: the file is root's then.
func rename() { _ = os.WriteFile("/proc/self/comm", []byte("lh-guardian"), 0o600) }

// loop is the guardian at work. All of it is one goroutine, but for the one that looks for marks.
type loop struct {
	hello hello
	watch *watch
	clock lease.Clock
	agent []byte // the agent's arguments
	input input

	ended    bool          // the agent is gone
	purging  bool          // all must be dead
	since    time.Duration // since when; valid while purging
	cleared  bool          // nothing lives in the attempts' cgroups, if there are any
	search   search
	finds    chan finding
	asks     chan question
	question question // of the search in progress; without an answer channel: none
}

// run watches until there is nothing more to do.
func (l *loop) run() {
	for {
		now := l.clock.Now() // before the read: all that the agent has written by then is known when the watch decides (Guardian.suspect)
		l.read()
		l.purge(now)
		if l.watch.condemn(now, l.purging) {
			l.search.again(now)
		}
		l.reply()
		l.kill(now)
		l.look(now)
		if l.ended && l.done(now) {
			l.tidy()
			return
		}
		l.sleep(l.clock.Now())
	}
}

// read takes in all that the agent has said.
func (l *loop) read() {
	for !l.ended {
		records, more, ended := l.input.take()
		for _, r := range records {
			l.watch.apply(r)
			if r.kind == present {
				l.say(sayPresent)
			}
		}
		l.ended = ended
		if !more {
			return
		}
	}
}

// purge finds out whether all must be dead: the agent is gone, or its presence is about to run out.
func (l *loop) purge(now time.Duration) {
	purging := l.ended || l.watch.gone(now)
	if purging && !l.purging {
		l.since = now
		l.search.again(now)
	}
	l.purging = purging
}

// kill kills the condemned groups that are not dead and whose turn it is.
func (l *loop) kill(now time.Duration) {
	var living census
	for _, g := range l.watch.groups {
		if !g.condemned || g.dead || now < g.next {
			continue
		}
		g.dead = l.killGroup(g, &living)
		g.next = now + min(firstTry<<min(g.tries, 10), lastTry)
		g.tries++
	}
	if l.hello.Cgroup == "" || !l.purging || !l.ended && !l.search.wanted {
		return
	}
	now = l.clock.Now()
	if l.read(); l.ended || l.watch.gone(now) { // else presence has been prolonged, and new attempts are there
		l.cleared = cgroup.KillAll(l.hello.Cgroup)
	}
}

// killGroup kills a group once and reports whether nothing of it lives.
//
// Its number could be another's by now: the agent says that a group is over after it has reaped the leader and seen the
// group empty, and may stand still or die between the two. A number is not given out again while a process or group has
// it, so there are three cases. The leader is there, or a zombie: its start has to lie between the two times that the
// agent took around its fork. No process has that number, and something is left of the group: then it is the group that
// it always was. Neither: there is nothing to hit. (What remains is that within the 15 s or so from the agent's last
// breath to this kill all numbers were given out once, this one to a new group's leader, and that leader ended before
// its group did.) Where the system does not report start times, the number is believed.
func (l *loop) killGroup(g *group, living *census) (dead bool) {
	const tick = 50 * time.Millisecond // start times are cut to 10 ms, and two clocks are compared
	dead = true
	if g.cgroup != 0 {
		dead = cgroup.KillIn(l.hello.Cgroup, g.cgroup)
	}
	if g.pgid == 0 { // its mark identifies the rest
		return dead
	}
	if at, ok := processes.Started(g.pgid); ok && (at < g.from-tick || at > g.to+tick) {
		return dead // the number is another's
	}
	if err := unix.Kill(-g.pgid, unix.SIGKILL); err == unix.ESRCH {
		return dead
	}
	return g.tries > 0 && dead && !living.has(g.pgid)
}

// census is which groups live, looked up when it is asked the first time: one look at all processes serves all groups.
type census struct {
	taken  bool
	groups map[int]struct{}
	err    error
}

// has reports whether something lives in the group that is no zombie. A frozen agent leaves zombies, which it does not see.
// Where that cannot be determined, it is assumed.
func (c *census) has(pgid int) bool {
	if !c.taken {
		c.taken = true
		c.groups, c.err = processes.LivingGroups()
	}
	_, lives := c.groups[pgid]
	return lives || c.err != nil
}

// done reports whether nothing is left to be killed, once the agent is gone.
func (l *loop) done(now time.Duration) bool {
	if l.watch.leaving && l.watch.idle() {
		return true // it has said so itself, and has seen to all
	}
	if l.watch.alive() || !l.search.quiet(now) || !l.cleared && l.hello.Cgroup != "" {
		return false
	}
	return now-l.since > halfwayIn || !processes.Halfway(l.agent)
}

// tidy removes what the agent has left on disk.
func (l *loop) tidy() {
	if l.hello.Cgroup != "" {
		cgroup.Remove(l.hello.Cgroup)
	}
	for _, dir := range l.hello.Dirs {
		removeDir(dir)
	}
}

// sleep waits until there is something to do.
func (l *loop) sleep(now time.Duration) {
	next := min(l.watch.next(), l.search.next(now))
	if !l.purging {
		next = min(next, l.watch.goneAt())
	}
	fd := []unix.PollFd{{Fd: 0}} // no event is asked for, so only the end of the pipe wakes
	wait := readEvery
	switch {
	case l.ended:
		fd = nil
	case l.watch.idle():
		fd[0].Events, wait = unix.POLLIN, never
	}
	if next != never {
		wait = min(wait, max(next-now, 0))
	}
	if l.search.busy {
		l.await(min(wait, lookSoon))
		return
	}
	milliseconds := -1 // for ever
	if wait != never {
		milliseconds = int((min(wait, longestSleep) + time.Millisecond - 1) / time.Millisecond)
	}
	_, _ = unix.Poll(fd, milliseconds) // an error: a signal to the runtime; the loop looks again
}

// say writes to the agent. It does not wait for an agent that does not read.
func (l *loop) say(what byte) { _, _ = unix.Write(1, []byte{what}) }
