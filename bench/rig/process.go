package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/bench/work"
)

// process is one that speaks the protocol of package work.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
	said  bytes.Buffer // on its standard error
}

// start starts a command with a job. It is killed, with all that it started, when ctx ends.
func start(ctx context.Context, command []string, j work.Job) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.Stderr = &p.said
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	if err := json.NewEncoder(p.in).Encode(j); err != nil {
		return nil, p.end(fmt.Errorf("hand over the job: %w", err))
	}
	return p, nil
}

// read reads the next line.
func (p *process) read() (l work.Line, err error) {
	text, err := p.lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil && l.Error != "" {
		err = errors.New(l.Error)
	}
	if err != nil {
		return l, p.end(err)
	}
	return l, nil
}

// begin lets it begin.
func (p *process) begin() error {
	if _, err := p.in.Write([]byte("go\n")); err != nil {
		return p.end(err)
	}
	return nil
}

// result ends a process that has no end of its own, and returns what it reports.
func (p *process) result() (*work.Result, error) {
	if err := p.in.Close(); err != nil {
		return nil, p.end(err)
	}
	l, err := p.read()
	if err != nil {
		return nil, err
	}
	return l.Result, p.end(nil)
}

// end closes its input, waits for its end and gives its error: cause where there is one, with what it said.
func (p *process) end(cause error) error {
	_ = p.in.Close() // it may be closed
	if cause != nil {
		_ = p.cmd.Cancel() // it may have ended
	}
	err := p.cmd.Wait()
	if cause == nil && err == nil {
		return nil
	}
	return fmt.Errorf("%w; it said: %s", errors.Join(cause, err), bytes.TrimSpace(p.said.Bytes()))
}
