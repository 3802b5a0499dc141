package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// How a pool starts processes.
const (
	firstPause   = 100 * time.Millisecond // after a start that failed; the pause doubles
	longestPause = 30 * time.Second
	enough       = 5                     // starts that failed in a row: the target is out of reach
	mostTries    = 3                     // processes that an envelope is given to
	lookAgain    = 50 * time.Millisecond // while a process is being started
	lookLate     = time.Second           // while all processes run attempts; the end of one wakes the loop
)

var errNotReady = errors.New("no worker was ready in time")

// Pool is the workers of one command block in one phase. It is safe for use by many at once.
type Pool struct {
	runner  *command.Runner
	log     *slog.Logger
	typ     *task.Type
	command *task.Command

	Options

	closing chan struct{}
	running sync.WaitGroup // goroutines: one for each process that runs no attempt

	mu       sync.Mutex
	idle     []*worker     // the last one was used last
	total    int           // processes, from before their start until they are gone
	booting  int           // of them not ready yet
	ending   int           // of them not to be given another attempt
	waiting  int           // attempts that wait for a process
	took     time.Duration // of the last start, until the process was ready
	failures int           // starts in a row that came to nothing, since an attempt ended last
	streak   int           // the same, since a process ended its first attempt last
	failure  error         // of the last one
	failed   time.Time     // when that was
	until    time.Time     // nothing is started before
	closed   bool
	changed  chan struct{} // closed when a process, or a place for one, may be had; nil: nothing waits for that
}

// NewPool makes a pool that starts nothing yet. c has a Worker.
func NewPool(r *command.Runner, log *slog.Logger, t *task.Type, c *task.Command) *Pool {
	return &Pool{runner: r, log: log, typ: t, command: c, closing: make(chan struct{})}
}

// Run runs one attempt in a ready process, which it starts where there is none. As command.Runner.Run, it calls started once
// the attempt has a process, and when it returns, nothing of the attempt is left, or the outcome says so.
func (p *Pool) Run(l *lease.Lease, t *task.Type, started func()) task.Outcome {
	for try := 1; ; try++ {
		w, err := p.acquire(l)
		if err != nil {
			return p.notStarted(l, err)
		}
		started()
		end := w.run(l, t)
		p.give(w, &end)
		switch {
		case !end.unread:
			return end.Outcome
		case end.Stuck != nil || try == mostTries || l.Context().Err() != nil:
			return p.unread(l, end)
		}
	}
}

// unread is the outcome of an attempt whose envelope no process has read.
func (p *Pool) unread(l *lease.Lease, end ended) task.Outcome {
	o := p.notStarted(l, fmt.Errorf("the worker read nothing of the envelope: %s", end.Error))
	o.Output, o.Stuck = end.Output, end.Stuck // which has nothing of the attempt
	return o
}

// notStarted is the outcome of an attempt that no process was there for.
func (p *Pool) notStarted(l *lease.Lease, err error) task.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := task.Outcome{Verdict: task.Drained, Error: err.Error()}
	switch {
	case l.Context().Err() != nil && cause(l).Verdict != task.TimedOut && cause(l).Verdict != task.Stalled: // which are no fault of it
		o = cause(l).Outcome()
	case p.failures >= p.enough():
		o.Verdict = task.Undelivered
		o.Error = fmt.Sprintf("%s: the worker cannot be started: %s", p.typ.Source, strings.TrimPrefix(p.failure.Error(), p.typ.Source+": "))
	}
	o.NeverStarted = true
	return o
}

// noBound is Room's answer where the slots of the type are bound enough.
const noBound = -1

// Room returns how many attempts may begin beside those that run: n < 0 is no bound, and with 0, it is to be asked again once
// wait has passed. An attempt is worth claiming for a process that is ready, or will be when another attempt ends, or can be
// started now; not while one is being started, which may take long. Asking changes nothing.
func (p *Pool) Room() (n int, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = max(len(p.idle)-max(p.waiting-p.booting, 0), 0)
	most := p.command.Worker.Processes
	starts := min(most-p.total, startsAtOnce())
	quick := p.took <= task.StartWait // who waits gets one in time
	switch pause := time.Until(p.until); {
	case pause > 0:
		return n, pause
	case p.booting > 0:
		return n, lookAgain
	case p.ending > 0: // its place may be had soon
		return max(len(p.idle)-p.waiting+starts, 0), lookAgain
	case p.total > 0 && p.typ.AtOnce() <= most && (quick || p.total >= p.typ.AtOnce()):
		return noBound, 0
	}
	return max(len(p.idle)-p.waiting+starts, 0), lookLate
}

// startsAtOnce is how many processes a pool has started at once: more would keep each other from becoming ready.
func startsAtOnce() int { return max(runtime.GOMAXPROCS(0), 2) }

// acquire takes a process that is ready. Where there is none, and there may be one more, it starts one. It waits as long as
// the attempt can still begin in time.
func (p *Pool) acquire(l *lease.Lease) (*worker, error) {
	p.mu.Lock()
	p.waiting++
	defer func() {
		p.waiting--
		p.mu.Unlock()
	}()
	for {
		if l.Context().Err() != nil {
			return nil, errNotReady
		}
		if w := p.pop(); w != nil {
			return w, nil
		}
		if l.Begun() { // in a process that did not read of it: its time runs
			return nil, errNotReady
		}
		tried := p.failures
		switch {
		case p.closed:
			return nil, errClosing
		case p.booting < min(p.waiting, startsAtOnce()) && p.total < p.command.Worker.Processes && time.Now().After(p.until):
			p.boot()
		case l.Late() && !p.Patient:
			return nil, errNotReady
		}
		if p.total == p.booting && p.took > task.StartWait && !p.Patient {
			return nil, errNotReady // it would wait in vain, while another agent may have a process
		}
		p.wait(l)
		if p.failures > tried && p.failures >= p.enough() {
			return nil, p.failure
		}
	}
}

// enough is how many starts in a row that come to nothing say that the command is out of reach.
func (p *Pool) enough() int {
	if p.Patient {
		return 1
	}
	return enough
}

// wait waits until something has changed, the lease has ended, or some time has passed. p.mu is held, but not while it waits.
func (p *Pool) wait(l *lease.Lease) {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	look := time.NewTimer(lookAgain)
	defer look.Stop()
	select {
	case <-changed:
	case <-l.Context().Done():
	case <-look.C:
	}
}

// pop takes the process that was used last, so that those that are not needed become old. p.mu is held.
func (p *Pool) pop() *worker {
	if len(p.idle) == 0 {
		return nil
	}
	last := len(p.idle) - 1
	w := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	return w
}

// notify wakes all that wait. p.mu is held.
func (p *Pool) notify() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// boot starts a process. p.mu is held.
func (p *Pool) boot() {
	p.total++
	p.booting++
	began := time.Now()
	p.running.Go(func() {
		w, output, err := p.start()
		p.mu.Lock()
		p.booting--
		if err != nil {
			p.total--
			p.fail(err, output, began, w != nil)
			p.notify()
			p.mu.Unlock()
			return
		}
		p.took = time.Since(began)
		p.push(w)
		p.mu.Unlock()
		p.watch(w)
	})
}

// start starts a process and waits until it is ready. After an error w may be one that was there.
func (p *Pool) start() (w *worker, output string, err error) {
	w, err = start(p.runner, p.log, p.typ, p.command, hooks{stray: p.Stray})
	if err != nil {
		return nil, "", err
	}
	if err = w.awaitReady(p.command.Worker.Ready, p.closing); err == nil {
		return w, "", nil
	}
	w.process.Signal()
	w.process.AwaitGone(min(p.command.StopGrace, faultGrace))
	c := w.close()
	if c.stuck != nil {
		select { // its place is not given to another
		case <-c.stuck:
		case <-p.closing:
		}
	}
	return w, c.output, err
}

// fail notes that a start, which began then, came to nothing: the next one has to wait. A process that ran (ran), and ended too
// soon, may be right the next time; a command that cannot be started will not be. p.mu is held.
func (p *Pool) fail(err error, output string, began time.Time, ran bool) {
	if errors.Is(err, errClosing) {
		return
	}
	if p.failures == 0 || began.After(p.failed) { // else it is one of several at once
		p.failures++
		p.streak++
	}
	p.failed = time.Now()
	if !ran {
		p.failures, p.streak = max(p.failures, enough), max(p.streak, enough)
	}
	p.failure = err
	pause := min(firstPause<<min(p.streak-1, 10), longestPause)
	p.until = time.Now().Add(pause)
	const most = 2 << 10 // bytes of the output's end
	p.log.Error("a worker did not start", "type", p.typ.Name, "err", err, "output", task.Text(output[max(len(output)-most, 0):], most),
		"again_in", pause, "failures", p.failures)
}

// push keeps a process for the next attempt. p.mu is held.
func (p *Pool) push(w *worker) {
	w.since = time.Now()
	p.idle = append(p.idle, w)
	p.notify()
}

// give takes a process back after an attempt.
func (p *Pool) give(w *worker, end *ended) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !end.unread:
		p.failures = 0
		if w.runs == 1 { // else it says nothing about starts
			p.streak = 0
		}
	case w.runs <= 1 && !end.spared:
		p.fail(fmt.Errorf("it ended before it had read an envelope: %s", end.Error), end.Output, w.began, true)
	}
	most := p.command.Worker.MaxTasks
	// What happens to the process after usable is seen by watch, which waits for the lock.
	if end.fate == reuse && !p.closed && (most == 0 || w.runs < most) && w.usable() {
		p.push(w)
		return
	}
	p.ending++
	if end.fate != gone {
		p.running.Go(func() { p.retire(w) })
		return
	}
	p.leave(end.Stuck)
}

// leave notes that a process that was ending is gone, or will be. p.mu is held.
func (p *Pool) leave(stuck <-chan struct{}) {
	if stuck == nil {
		p.total--
		p.ending--
		p.notify()
		return
	}
	p.running.Go(func() {
		select {
		case <-stuck:
		case <-p.closing:
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.leave(nil)
	})
}

// Close ends all processes and waits until they are gone. Attempts that still run go on to their ends; none begins.
func (p *Pool) Close() {
	p.end()
	p.running.Wait()
}

// isEmpty reports whether there is neither a process nor an attempt.
func (p *Pool) isEmpty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total+p.waiting == 0
}

// end is Close, and does not wait.
func (p *Pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.closing)
		p.notify()
	}
}
