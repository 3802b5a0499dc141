package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a running command and its group, whose number is the leader's.
type process struct {
	pid    int
	exited chan struct{} // closed once the leader has been reaped
	state  *os.ProcessState

	in  *os.File // our end of its standard input
	out *os.File // our end of its output

	shared *shared
	mu     sync.Mutex
	kept   output
	buffer *[]byte // nil once nothing is kept any more
}

// shared is what the processes of a runner have in common.
type shared struct {
	running sync.WaitGroup // goroutines, which end with their process or shortly after
	buffers sync.Pool      // of *[]byte, readSize long
}

// readSize is how much output is read at once.
const readSize = 32 << 10

// pipeHolds is how much every pipe takes without a reader (pipe(7): one page at the least).
const pipeHolds = 4096

// maxPipe is more than a pipe holds (fs.pipe-max-size is 1 MiB), so that one who goes on writing is not read for ever.
const maxPipe = 2 << 20

// start starts a call as the leader of a new process group. What it leaves running ends with the process and
// finish.
func start(k *call, s *shared) (p *process, err error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), childIn.Close(), in.Close())
	}
	cmd := &exec.Cmd{
		Path: k.path, Args: k.argv, Env: k.env, Dir: k.dir,
		Stdin: childIn, Stdout: childOut, Stderr: childOut, // one pipe keeps the order of the two
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Credential: k.credential},
	}
	small := len(k.input) <= pipeHolds
	if small {
		_, _ = in.Write(k.input)
		_ = in.Close()
	}
	err = cmd.Start()
	_, _ = childIn.Close(), childOut.Close()
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, startError(k, err)
	}
	p = &process{pid: cmd.Process.Pid, exited: make(chan struct{}), in: in, out: out, shared: s}
	if b, ok := s.buffers.Get().(*[]byte); ok {
		p.buffer = b
	} else {
		b := make([]byte, readSize)
		p.buffer = &b
	}
	if !small {
		s.running.Go(func() { p.feed(k.input) })
	}
	s.running.Go(p.drain)
	s.running.Go(func() {
		_ = cmd.Wait() // what it says stands in the state
		p.state = cmd.ProcessState
		close(p.exited)
	})
	return p, nil
}

// feed writes the input. A child that does not read it, or not all, is free to do so.
func (p *process) feed(input []byte) {
	_, _ = p.in.Write(input)
	_ = p.in.Close()
}

// drain reads output until nobody can write any more, or finish has taken the rest.
func (p *process) drain() {
	defer func() { _ = p.out.Close() }()
	raw, err := p.out.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		for {
			switch p.take(int(fd)) {
			case atEnd:
				return true
			case empty:
				return false // wait for more
			case full:
			}
		}
	})
}

// taken is how take left the pipe.
type taken int

const (
	empty taken = iota // for now
	full               // it took maxPipe bytes, and there may be more
	atEnd              // nothing more comes, or nothing more is kept
)

// take reads what stands in the output pipe, at most about maxPipe bytes of it.
func (p *process) take(fd int) taken {
	p.mu.Lock()
	defer p.mu.Unlock()
	for left := maxPipe; left > 0 && p.buffer != nil; {
		n, err := unix.Read(fd, *p.buffer)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return empty
		case n <= 0:
			return atEnd
		}
		p.kept.add((*p.buffer)[:n])
		left -= n
	}
	if p.buffer == nil {
		return atEnd
	}
	return full
}

// finish ends the pipes and returns what was printed. What the dead have left in the output pipe is read here and now.
// Neither the end of the file nor drain is waited for: a process outside the group may hold the pipe open, and while
// all threads are busy starting processes, Go's scheduler would take milliseconds to get there.
func (p *process) finish() string {
	if raw, err := p.out.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { p.take(int(fd)) }) // an error says that drain has seen the end
	}
	past := time.Unix(0, 0)
	_ = p.out.SetReadDeadline(past) // wakes drain, which closes it
	_ = p.in.SetWriteDeadline(past) // and feed
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shared.buffers.Put(p.buffer)
	p.buffer = nil
	return p.kept.String()
}

// ended tells whether the leader has ended and been reaped.
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
	if !p.ended() {
		return exitStatus{unknown: true}
	}
	ws, ok := p.state.Sys().(syscall.WaitStatus)
	if !ok {
		return exitStatus{unknown: true}
	}
	if ws.Signaled() {
		return exitStatus{signal: ws.Signal()}
	}
	return exitStatus{code: ws.ExitStatus()}
}

// startError says in whose power it is that a call did not start.
func startError(k *call, err error) error {
	switch {
	case errors.Is(err, unix.E2BIG):
		return &rowError{fmt.Errorf("%s: argv and env are too long together, or one of them is: %w", k.source, err)}
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES):
		if info, derr := os.Stat(k.dir); k.dir != "" && (derr != nil || !info.IsDir()) {
			return fmt.Errorf("%s: dir = %q is no directory that the agent can enter", k.source, k.dir)
		}
	}
	if path, ok := errors.AsType[*os.PathError](err); ok {
		err = path.Err
	}
	return fmt.Errorf("%s: start %s: %w", k.source, k.argv[0], err)
}
