package command

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// call is what a process is started with.
type call struct {
	path       string // of the program
	argv       []string
	env        []string // the spawner adds what is the process's own
	dir        string
	input      []byte
	credential *syscall.Credential // nil: the agent's own
	source     string              // file:line of the declaration
}

// process is a command from before its start until nothing is left of it: its group, whose number is the leader's, its
// cgroup, its entry with the guardian process, its pipes and its private directory. It knows nothing of rows, leases and
// outcomes: an attempt drives it.
//
// ready, start, then any of signal, kill, await and hold.clear, then finish, and release once it is gone.
type process struct {
	*spawner
	call     *call
	dir      *privateDir
	hold     *hold
	channels *channels

	pid    int
	began  time.Time          // shortly before the start
	exited chan struct{}      // closed once the leader has been reaped
	lived  time.Duration      // of the leader; valid once exited is closed
	state  syscall.WaitStatus // of the leader; the same, unless lost
	lost   bool               // the leader's state was not to be had

	in  *os.File // our end of its standard input; nil: it was written before the start
	out drain
}

// shared is what the processes of a spawner have in common.
type shared struct {
	running sync.WaitGroup // goroutines, which end with their process or shortly after
	stuck   sync.WaitGroup // goroutines, which end with a process that SIGKILL did not end, or the spawner
	gone    func(int) bool // for tests: in the place of groupGone
	buffers sync.Pool      // of *[]byte, readSize long

	datagrams sync.Pool // of *[]byte, for a datagram of the most that is taken
	terminal  bool      // the agent has one
}

// pipeHolds is how much every pipe takes without a reader (pipe(7): one page at the least).
const pipeHolds = 4096

// ready makes what a process needs to be started. to gets what the process reports. It returns a process after an error,
// too: release has to follow, whatever comes of it.
func (s *spawner) ready(k *call, w window, to receiver) (p *process, err error) {
	p = &process{spawner: s, call: k, exited: make(chan struct{})}
	if p.dir, err = s.dirs.take(k.credential); err != nil {
		return p, err
	}
	if p.channels, err = s.openChannels(k.credential, to); err != nil {
		return p, err
	}
	if p.hold, err = s.guard.begin(w); err != nil {
		return p, err
	}
	k.env = append(p.channels.environment(k.env), "LEASEHOLD_RESULT_FILE="+p.dir.resultPath(), s.guard.run.Mark(p.hold.number))
	return p, nil
}

// start starts the process as the leader of a new group. What it leaves running ends with the process and finish. After
// an error nothing of it runs, and errLate says that it would have had to be dead already.
func (p *process) start() error {
	k := p.call
	childIn, err := p.makeInput(k.input)
	if err != nil {
		return err
	}
	// One pipe keeps the order of output and errors.
	out, childOut, err := pipe()
	if err != nil {
		_, _ = unix.Close(childIn), p.in.Close()
		return fmt.Errorf("make a pipe: %w", err)
	}
	p.out = drain{shared: &p.shared, pipe: source{fd: out}}
	if err := p.fork(childIn, childOut, p.channels.child); err != nil {
		_ = p.in.Close()
		return err
	}
	p.out.start()
	if p.in != nil {
		p.shared.running.Go(func() { p.feed(k.input) })
	}
	p.shared.running.Go(p.reap)
	p.channels.started()
	p.hold.watch(p.pid)
	return nil
}

// fork starts the process with these descriptors, which it closes but for the last. After an error nothing of it runs.
func (p *process) fork(in, out, three int) (err error) {
	k := p.call
	p.began = time.Now()
	// os/exec would have all ends watched by Go's poller, those of the child too, and open a pidfd.
	p.pid, err = p.hold.fork(k.path, k.argv, &syscall.ProcAttr{
		Dir: k.dir, Env: k.env,
		Files: []uintptr{uintptr(in), uintptr(out), uintptr(out), uintptr(three)},
		Sys:   apart(k.credential, p.shared.terminal),
	})
	_, _ = unix.Close(in), unix.Close(out)
	if err != nil {
		p.out.pipe.close()
		return startError(k, err)
	}
	return nil
}

// makeInput makes the pipe that is the command's standard input and returns the command's end. A short input is in it
// when it returns; p.in is the other end for a longer one.
func (p *process) makeInput(input []byte) (childIn int, err error) {
	childIn, in, err := pipe()
	if err != nil {
		return 0, fmt.Errorf("make a pipe: %w", err)
	}
	if len(input) > pipeHolds {
		if p.in, err = pollable(in); err != nil {
			return 0, errors.Join(err, unix.Close(childIn))
		}
		return childIn, nil
	}
	_, _ = unix.Write(in, input)
	_ = unix.Close(in)
	return childIn, nil
}

// pollable has Go's poller watch our end of a pipe.
func pollable(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "|"), nil
}

// reap waits for the end of the leader. Nothing else waits for it (groupGone does only afterwards).
func (p *process) reap() {
	for {
		_, err := syscall.Wait4(p.pid, &p.state, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		p.lived, p.lost = time.Since(p.began), err != nil
		close(p.exited)
		return
	}
}

// feed writes the input. A child that does not read it, or not all, is free to do so.
func (p *process) feed(input []byte) {
	_, _ = p.in.Write(input)
	_ = p.in.Close()
}

// finish ends pipes and channels, and returns what was printed. All that the process reported before its end has been
// received when finish returns.
func (p *process) finish() (output string) {
	if p.in != nil {
		_ = p.in.SetWriteDeadline(time.Unix(0, 0)) // wakes feed, which closes it
	}
	output = p.out.finish()
	p.channels.close()
	return output
}

// release gives up all that ready made. It comes when nothing of the process is left, or when it never started. Its error
// says that the private directory is left behind.
func (p *process) release() error {
	if p.channels != nil {
		p.channels.close()
	}
	if p.hold != nil {
		if p.status().signal == syscall.SIGKILL {
			p.hold.group.Spoil()
		}
		p.hold.over()
	}
	if p.dir == nil {
		return nil
	}
	return p.dirs.give(p.dir)
}

// ended reports whether the leader has ended and been reaped.
func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// status is how the leader ended.
func (p *process) status() exitStatus {
	if !p.ended() || p.lost {
		return exitStatus{unknown: true}
	}
	if p.state.Signaled() {
		return exitStatus{signal: p.state.Signal()}
	}
	return exitStatus{code: p.state.ExitStatus()}
}

// exitStatus is how a leader ended: by a signal, with a code, or not at all.
type exitStatus struct {
	code    int
	signal  syscall.Signal // 0: none
	unknown bool           // it is still there
}

func (s exitStatus) ok() bool { return !s.unknown && s.signal == 0 && s.code == 0 }

// startError says what kept a call from being started. One that wraps E2BIG is the doing of the arguments.
func startError(k *call, err error) error {
	switch {
	case errors.Is(err, unix.E2BIG):
		return fmt.Errorf("%s: argv and env are too long together, or a single value in them is: %w", k.source, err)
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES):
		if info, derr := os.Stat(k.dir); k.dir != "" && (derr != nil || !info.IsDir()) {
			return fmt.Errorf("%s: dir = %q is not a directory that the agent can enter", k.source, k.dir)
		}
	}
	return fmt.Errorf("%s: start %s: %w", k.source, k.argv[0], err)
}
