package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Program is an engine as its users run it: a program that does not speak the protocol of package work.
type Program struct {
	// Command gives the command line; files that it needs go into dir.
	Command func(dir, url string) ([]string, error)
	// Accepting is Command for rows that are posted to target, which goes on with them after a 202. nil: it cannot.
	Accepting func(dir, url, target string) ([]string, error)
	Ready     string // what a line of its output has in it once it is at work
}

// stopWithin is how long a program may take to end after SIGTERM.
const stopWithin = 30 * time.Second

// launch starts a program and waits until it is ready. stop ends it; it is killed when ctx ends.
func launch(ctx context.Context, command []string, ready string) (pid int, stop func() error, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = stopWithin
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		return 0, nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	ended := make(chan error, 1)
	go func() { // ends with the process
		err := cmd.Wait()
		ended <- err
		_ = in.CloseWithError(io.EOF) // it never fails
	}()
	stop = func() error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		timer := time.NewTimer(stopWithin)
		defer timer.Stop()
		select {
		case err := <-ended:
			return err
		case <-timer.C:
			return errors.Join(fmt.Errorf("%s has not ended within %s", command[0], stopWithin), cmd.Process.Kill())
		}
	}
	lines := bufio.NewReader(out)
	var output strings.Builder
	for {
		line, err := lines.ReadString('\n')
		output.WriteString(line)
		if strings.Contains(line, ready) {
			go func() { _, _ = io.Copy(io.Discard, lines) }() // ends with the process; what else it says does not matter
			return cmd.Process.Pid, stop, nil
		}
		if err != nil {
			return 0, nil, fmt.Errorf("%s ended early: %w; it said: %s", command[0], <-ended, output.String())
		}
	}
}
