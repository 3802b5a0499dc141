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

	in    *os.File // our end of its standard input
	out   *os.File // our end of its output
	pipes sync.WaitGroup
	kept  output
}

// start starts a call as the leader of a new process group.
func start(k *call) (p *process, err error) {
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
	err = cmd.Start()
	_, _ = childIn.Close(), childOut.Close()
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, startError(k, err)
	}
	p = &process{pid: cmd.Process.Pid, exited: make(chan struct{}), in: in, out: out}
	p.pipes.Go(func() { p.feed(k.input) })
	p.pipes.Go(p.drain)
	go func() { // ends with the leader, which awaitGone and kill see to
		_ = cmd.Wait() // what it says stands in the state
		p.state = cmd.ProcessState
		close(p.exited)
	}()
	return p, nil
}

// feed writes the input. A child that does not read it, or not all, is free to do so.
func (p *process) feed(input []byte) {
	_, _ = p.in.Write(input)
	_ = p.in.Close()
}

// drain reads all output until nobody can write any more, or the reading is cut off.
func (p *process) drain() {
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for {
		n, err := p.out.Read(*buffer)
		p.kept.add((*buffer)[:n])
		if err != nil {
			return
		}
	}
}

var buffers = sync.Pool{New: func() any {
	b := make([]byte, 32<<10)
	return &b
}}

// close ends the pipes and returns what was printed. What is still in the output pipe is read; a process outside the
// group that holds it open is not waited for.
func (p *process) close() string {
	_ = p.in.Close()
	_ = p.out.SetReadDeadline(time.Now().Add(drainFor))
	p.pipes.Wait()
	_ = p.out.Close()
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
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s: start %s: %w", k.source, k.argv[0], err)
}
