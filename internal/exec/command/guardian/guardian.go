// Package guardian is the process beside an agent that sees its subprocesses dead when the agent cannot: it knows when
// each process group is to be gone, and kills it then, whether the agent is dead, stands still, or is merely late.
//
// It is the agent's own program, started again with Argument (Main), in a session of its own. The agent sends it over a
// pipe what runs and until when; the end of the pipe is the end of the agent. Guardian is the agent's side of that.
package guardian

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command/processes"
	"github.com/leasehold/leasehold/internal/lease"
)

// Options are what a Guardian needs.
type Options struct {
	// Argv starts the guardian process; its program's main calls Main. See Self.
	Argv []string
	Run  processes.Run // the mark of the agent's processes
	// Dirs are the directories of the agent's private files, which are removed when the agent is gone; their names begin
	// with DirPrefix.
	Dirs   []string
	Cgroup string // path of the agent's tree of cgroups; "": none
	// Killed is called when the guardian process may have killed in every cgroup of the tree, whatever it was used for: from
	// now on nothing is to be started in one that is there. It must not block.
	Killed func()
	Log    *slog.Logger

	patience time.Duration // answerIn, unless a test is in a hurry
	begin    time.Duration // beginWithin, likewise
}

// Guardian is an agent's guardian. All of its methods return at once, but for Begin and Close; times are those of
// lease.BootClock. It is safe for use by many at once.
type Guardian struct {
	o     Options
	clock lease.Clock

	mu       sync.Mutex
	attempts map[uint64]*attempt // that are not over
	last     uint64
	presence time.Duration // 0: not sent
	doubt    bool          // the guardian process may be killing all, until it has given
	answers  int64         // so many answers
	child    *child        // nil while there is none
	up       chan struct{} // closed while there is one
	reason   error         // why there is none
	closed   bool

	quit chan struct{} // closed by Close
	done chan struct{} // closed when all has ended
}

// How long the guardian process may take.
const (
	readyWithin = 10 * time.Second      // from its start until it watches
	answerIn    = 5 * time.Second       // to answer, or to read a full pipe; one that does not is replaced
	retryEvery  = 5 * time.Millisecond  // what did not fit into the pipe is tried again
	beginWithin = 2 * time.Second       // an attempt waits for a new one
	closeWithin = 2 * time.Second       // to end once it is asked to
	firstPause  = 20 * time.Millisecond // between two starts, of which the second failed,
	lastPause   = 2 * time.Second       // and between many
	steadyAfter = 10 * time.Second      // of life, it is started again without a pause
)

// attempt is one that is not over: what the guardian process knows of it.
type attempt struct {
	record

	overdue bool // it has been there when it had to be dead
}

// Start starts a guardian process, and another whenever one ends, until Close.
func Start(o Options) *Guardian {
	o.patience, o.begin = cmp.Or(o.patience, answerIn), cmp.Or(o.begin, beginWithin)
	g := &Guardian{
		o: o, clock: lease.BootClock(), attempts: make(map[uint64]*attempt), up: make(chan struct{}), reason: errors.New("it is being started"),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	go func() { // ends with Close
		defer close(g.done)
		g.supervise()
	}()
	return g
}

// Begin announces that an attempt is about to start in that cgroup (0: in none), with a window that ends then, and gives
// its number: its processes carry the run's Mark of it. What the attempt starts is seen dead from now on, whether Watch
// follows or not. It fails where no guardian process is there, nor after a moment: nothing is to be started then. Over has
// to follow, whatever comes of it.
func (g *Guardian) Begin(cgroup int, end time.Duration) (number uint64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.child == nil && !g.closed {
		g.await()
	}
	switch {
	case g.closed:
		return 0, errors.New("no guardian process is running: the agent is stopping")
	case g.child == nil:
		return 0, fmt.Errorf("no guardian process is running: %w", g.reason)
	}
	g.trust()
	g.last++
	t := &attempt{record: record{kind: pending, number: g.last, cgroup: cgroup, end: end}}
	g.attempts[g.last] = t
	g.send(t.record)
	return g.last, nil
}

// await waits until a guardian process is there, for a moment. g.mu is held, but not while it waits.
func (g *Guardian) await() {
	late := time.NewTimer(g.o.begin)
	defer late.Stop()
	for over := false; g.child == nil && !g.closed && !over; {
		up := g.up
		g.mu.Unlock()
		select {
		case <-up:
		case <-g.quit:
		case <-late.C:
			over = true
		}
		g.mu.Lock()
	}
}

// Group is a process group and when it is to be dead.
type Group struct {
	ID       int           // the leader's process id
	Cgroup   int           // number of its cgroup in the tree; 0: none
	End      time.Duration // of the lease's window
	From, To time.Duration // the leader was started after the one, and before the other
}

// Watch says what group the attempt is, and when its window ends.
func (g *Guardian) Watch(number uint64, a Group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.attempts[number]; t != nil {
		next := record{kind: start, number: number, pgid: a.ID, cgroup: a.Cgroup, end: a.End, from: a.From, to: a.To}
		g.send(next)
		t.overdue = t.overdue || g.late(t, g.clock.Now())
		t.record = next
	}
}

// Move says that the attempt's window ends at another time now.
func (g *Guardian) Move(number uint64, end time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.attempts[number]; t != nil {
		g.send(record{kind: move, number: number, end: end})
		t.overdue = t.overdue || g.late(t, g.clock.Now())
		t.end = end
	}
}

// Overdue reports whether the attempt's group has been there when it had to be dead: then it was killed, whatever has
// become of the lease since.
func (g *Guardian) Overdue(number uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.attempts[number]
	return t != nil && (t.overdue || g.late(t, g.clock.Now()))
}

// Over says that nothing is left of the attempt, or that it never started, and reports whether the guardian process may
// have killed in its cgroup. It comes after the group was seen gone.
func (g *Guardian) Over(number uint64) (killed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.attempts[number]
	if t == nil {
		return false
	}
	g.trust()
	g.send(record{kind: over, number: number})
	delete(g.attempts, number)
	return t.overdue || g.late(t, g.clock.Now())
}

// Presence says when the presence of the agent's session runs out, for all groups. Before the first time it does not.
func (g *Guardian) Presence(until time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trust()
	if g.child != nil && g.child.silent(g.o.patience) {
		_ = g.child.kill() // it will be started anew
	}
	g.send(record{kind: present, end: until})
	now := g.clock.Now()
	for _, t := range g.attempts {
		t.overdue = t.overdue || g.late(t, now)
	}
	if g.absent(now) || g.behind() {
		g.suspect()
	}
	g.presence = until
}

// Close ends the guardian process, once it has killed what is left.
func (g *Guardian) Close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.quit)
		g.send(record{kind: bye})
	}
	if g.child != nil {
		g.child.hangUp()
	}
	left := len(g.attempts)
	g.mu.Unlock()
	timer := time.NewTimer(closeWithin)
	defer timer.Stop()
	select {
	case <-g.done:
	case <-timer.C:
		if left == 0 { // else it goes on killing, and outlives the agent
			g.o.Log.Warn("the guardian process does not end; the agent exits without it")
		}
	}
}

// PID is the guardian process's; 0 while there is none.
func (g *Guardian) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.child == nil {
		return 0
	}
	return g.child.cmd.Process.Pid
}

// Watched is how many attempts are not over.
func (g *Guardian) Watched() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.attempts)
}

// send writes to the guardian process; while there is none, the next one gets all. g.mu is held.
func (g *Guardian) send(r record) {
	c := g.child
	if c == nil {
		return
	}
	behind := len(c.backlog) > 0
	c.write(r)
	if !behind && len(c.backlog) > 0 {
		time.AfterFunc(retryEvery, func() { g.flush(c) })
	}
}

// flush writes what did not fit into the pipe, in time; a guardian process that takes nothing more is replaced.
func (g *Guardian) flush(c *child) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.child != c:
	case !c.flush():
		g.blame() // until now it went by what had been so
	case time.Since(c.behind) > g.o.patience:
		_ = c.kill()
	default:
		time.AfterFunc(retryEvery, func() { g.flush(c) })
	}
}

// sendAll sends the whole state to a new guardian process. g.mu is held.
func (g *Guardian) sendAll() {
	g.send(record{kind: base, number: g.last})
	if g.presence != 0 {
		g.send(record{kind: present, end: g.presence})
	}
	for _, t := range g.attempts {
		g.send(t.record)
	}
}

// supervise keeps a guardian process alive until Close.
func (g *Guardian) supervise() {
	pause := time.Duration(0)
	for again := false; !g.closing(); again = true {
		began := time.Now()
		c, err := g.launch()
		if err == nil {
			if again {
				g.o.Log.Info("the guardian process is running again", "pid", c.cmd.Process.Pid)
			}
			err = <-c.ended
			g.lose(c, err)
		}
		if g.closing() {
			return
		}
		g.o.Log.Error("the guardian process is not running: no command is started until it is", "err", err)
		if time.Since(began) > steadyAfter {
			pause = 0
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-g.quit:
			timer.Stop()
		}
		pause = min(max(2*pause, firstPause), lastPause)
	}
}

func (g *Guardian) closing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// launch starts a guardian process and sends it the whole state.
func (g *Guardian) launch() (*child, error) {
	c, err := startChild(g.o)
	if err != nil {
		g.lose(nil, err)
		return nil, err
	}
	timer := time.NewTimer(readyWithin)
	defer timer.Stop()
	select {
	case <-c.ready:
	case err = <-c.ended:
	case <-timer.C:
		err = fmt.Errorf("it was not ready within %s", readyWithin)
		_ = c.kill()
	case <-g.quit:
		err = errors.New("the agent is stopping")
		_ = c.kill()
	}
	if err != nil {
		g.lose(c, err)
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.child, g.reason = c, nil
	g.sendAll()
	if g.closed { // this moment
		g.send(record{kind: bye})
		c.hangUp()
	}
	close(g.up)
	return c, nil
}

// lose notes that there is no guardian process, and why.
func (g *Guardian) lose(c *child, reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c != nil {
		c.release()
		g.lastDoubt(c)
	}
	if g.child != nil {
		g.child, g.up = nil, make(chan struct{})
	}
	g.reason = reason
}
