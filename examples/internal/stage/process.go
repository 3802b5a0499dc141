package stage

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Process is a program that runs in the background, with what it prints in a file.
type Process struct {
	name  string
	log   string
	cmd   *exec.Cmd
	over  bool          // the play has ended it
	ended chan struct{} // closed when it has
	err   error         // valid then
}

// Start starts a program; it gets TERM when ctx ends, and KILL ten seconds later.
func (s *Stage) Start(ctx context.Context, name, program string, args ...string) (*Process, error) {
	p := &Process{name: name, log: filepath.Join(s.Dir, name+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the program has a handle of its own
	p.cmd = exec.CommandContext(ctx, program, args...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = s.Dir, append(os.Environ(), s.Env...), log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the play, which stops it in order
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 10 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { // ends with the program
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	s.started = append(s.started, p)
	return p, nil
}

// Stop asks the program to end and waits for it.
func (p *Process) Stop(within time.Duration) error {
	p.over = true
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not stop within %s", p.name, within)
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w", p.name, p.err)
	}
	return nil
}

// Kill kills the program and waits for its end.
func (p *Process) Kill(ctx context.Context) error {
	p.over = true
	_ = p.cmd.Process.Kill() // that it has ended is waited for
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Ended reports whether the program is over. What waits for it then goes on, and fails.
func (p *Process) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Tail is the end of what the program printed.
func (p *Process) Tail() string {
	content, _ := os.ReadFile(p.log) // what cannot be read cannot be shown
	const most = 3000
	if len(content) > most {
		content = content[len(content)-most:]
	}
	return string(content)
}

// Listens waits until a program takes connections at an address, or is over.
func (p *Process) Listens(ctx context.Context, address string) error {
	return Until(ctx, "the "+p.name+" listened", func() bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err == nil || p.Ended()
	})
}

// FreeAddress returns an address at which no process listens. Another process may take it before the caller's program does.
func FreeAddress(ctx context.Context) (string, error) {
	free, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return free.Addr().String(), free.Close()
}

// Until asks again and again whether something is so, and fails with what when ctx ends first.
func Until(ctx context.Context, what string, so func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}
