package command

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/command/processes"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// noWindow is the end of a worker's window while it runs no attempt: only the presence of the agent's session bounds it.
const noWindow = time.Duration(math.MaxInt64)

// Receiver gets the lines of a worker's descriptor 3, without their line feeds, one call after another; nil is one that is too
// long, which is said before it ends, and perhaps again. It reports whether the line is of the kind that a process could write
// without end, as pings are. It must not block, nor call the Worker.
type Receiver func(line []byte) (noise bool)

// Worker is the process of a worker: it is started once, and knows nothing of the attempts that it runs. Its methods are
// called by one goroutine at a time, but for Exited, Silent and Move.
type Worker struct {
	runner  *Runner
	command *task.Command
	process *process
	reports reports

	input   *os.File
	raw     syscall.RawConn // of input
	writing *writing        // the last line; nil: none yet

	before map[processes.Process]struct{} // that were there when it was ready; nil: unknown
}

// StartWorker starts a worker of a command, whose lines have at most maxLine bytes. After an error there is none. Release has
// to follow.
func (r *Runner) StartWorker(t *task.Type, c *task.Command, maxLine int, to Receiver) (*Worker, error) {
	k, err := prepareWorker(t, c)
	if err != nil {
		return nil, err
	}
	w := &Worker{runner: r, command: c, process: &process{spawner: &r.spawner, call: k, exited: make(chan struct{})}}
	w.reports = reports{shared: &r.shared, to: to, end: make(chan struct{}), stop: make(chan struct{}), lines: ping.Lines{Most: maxLine}}
	now := r.guard.now()
	if w.process.hold, err = r.guard.begin(window{from: now, until: noWindow, end: noWindow}); err != nil {
		return nil, err
	}
	k.env = append(k.env, r.guard.run.Mark(w.process.hold.number))
	if err := w.start(); err != nil {
		return nil, errors.Join(err, w.process.release())
	}
	return w, nil
}

// prepareWorker is prepare for a worker: argv and env have no row's data.
func prepareWorker(t *task.Type, c *task.Command) (k *call, err error) {
	k = &call{dir: c.Dir, source: t.Source}
	noRow := &task.Task{}
	if k.argv, err = arguments(noRow, t, c); err != nil {
		return nil, err
	}
	declared, err := declaredEnv(noRow, t, c)
	if err != nil {
		return nil, err
	}
	home := ""
	if c.User != "" {
		if k.credential, home, err = credentialOf(c.User); err != nil {
			return nil, fmt.Errorf("%s: user = %q: %w", t.Source, c.User, err)
		}
	}
	k.env = append(fixedEnvironment(declared, home), "LEASEHOLD_WORKER=1")
	if k.path, err = lookUp(k.argv[0], k.env); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Source, err)
	}
	return k, nil
}

// start makes the pipes and starts the process. After an error nothing of it runs.
func (w *Worker) start() error {
	p := w.process
	childIn, in, err := pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	out, childOut, err := pipe()
	if err != nil {
		_, _ = unix.Close(childIn), unix.Close(in)
		return fmt.Errorf("make a pipe: %w", err)
	}
	three, childThree, err := pipe()
	if err != nil {
		_, _, _, _ = unix.Close(childIn), unix.Close(in), unix.Close(out), unix.Close(childOut)
		return fmt.Errorf("make a pipe: %w", err)
	}
	p.out = drain{shared: &p.shared, pipe: source{fd: out}}
	err = p.fork(childIn, childOut, childThree)
	_ = unix.Close(childThree)
	if err != nil {
		_, _ = unix.Close(in), unix.Close(three)
		return err
	}
	p.out.start()
	p.shared.running.Go(p.reap)
	p.hold.watch(p.pid)
	if w.input, err = pollable(in); err == nil {
		w.raw, _ = w.input.SyscallConn() // it fails for no file only
		err = w.reports.start(three)
	} else {
		_ = unix.Close(three)
	}
	if err != nil { // no pipe can refuse this: there is nothing to be done but not to use it
		_ = p.kill(killFor)
		_ = p.out.finish()
	}
	return err
}

// PID is the process's id, and its group's.
func (w *Worker) PID() int { return w.process.pid }

// Exited is closed once the process has ended. What it wrote before may still be to be read; see Drain.
func (w *Worker) Exited() <-chan struct{} { return w.process.exited }

// Silent is closed once no process can write to descriptor 3 any more: all have closed it.
func (w *Worker) Silent() <-chan struct{} { return w.reports.end }

// Settled says that the process is ready: what is there now may stay from one attempt to the next.
func (w *Worker) Settled() {
	before, err := w.members()
	if err == nil {
		w.before = before
	}
}

func (w *Worker) members() (map[processes.Process]struct{}, error) {
	return processes.Members(w.runner.guard.run, w.process.hold.number, w.process.pid)
}

// Clean reports whether no process is there but those of the time of Settled. "No" may mean that this cannot be determined.
func (w *Worker) Clean() bool {
	members, err := w.members()
	if err != nil || w.before == nil {
		return false
	}
	for m := range members {
		if _, there := w.before[m]; !there {
			return false
		}
	}
	return true
}

// Observe says that the worker runs an attempt, until the function that it returns is called.
func (w *Worker) Observe(l *lease.Lease) (over func()) {
	return w.runner.observer.begin(l, w.process.pid, false)
}
