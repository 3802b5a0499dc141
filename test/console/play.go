package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Bounds of a command, and of what another terminal prints.
const (
	within = 2 * time.Minute
	stopIn = 30 * time.Second
)

// Play plays the page at a path, in a directory of its own, with the binary leasehold first in PATH. Ports 7070 and 8080 of the page are others
// here, which are free.
func Play(t *testing.T, page, bin string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	p := &player{t: t, dir: t.TempDir(), ports: strings.NewReplacer("127.0.0.1:7070", freeAddress(t), "8080", port(freeAddress(t)))}
	steps, err := document(p.ports.Replace(string(text)))
	require.NoError(t, err, page)
	listen := filepath.Join(t.TempDir(), "listen.hcl")
	require.NoError(t, os.WriteFile(listen, []byte(p.ports.Replace("agent {\n  listen = \"127.0.0.1:7070\"\n}\n")), 0o600))
	p.env = append(os.Environ(), "PATH="+filepath.Dir(bin)+string(os.PathListSeparator)+os.Getenv("PATH"),
		"LEASEHOLD_CONFIG="+filepath.Join(p.dir, "leasehold.hcl")+string(os.PathListSeparator)+listen, "COLUMNS=100", "PYTHONUNBUFFERED=1")
	defer p.interrupt()
	for i, s := range steps {
		where := fmt.Sprintf("%s:%d", filepath.Base(page), s.line)
		switch {
		case s.file != "":
			p.write(s)
		case s.terminal != "":
			p.open(s, where)
		default:
			p.run(s, i+1 < len(steps) && steps[i+1].text == "echo $?", where)
		}
		if t.Failed() {
			return
		}
	}
}

// player plays one page.
type player struct {
	t      *testing.T
	dir    string
	env    []string
	ports  *strings.Replacer
	status int // of the last command
	others []*terminal
}

// write writes a file of the page.
func (p *player) write(s step) {
	p.t.Helper()
	path := filepath.Join(p.dir, s.file)
	require.NoError(p.t, os.MkdirAll(filepath.Dir(path), 0o750))
	old := []byte(nil)
	if s.add {
		var err error
		old, err = os.ReadFile(path)
		require.NoError(p.t, err)
	}
	require.NoError(p.t, os.WriteFile(path, append(old, s.text...), 0o600))
}

// run runs a command to its end.
func (p *player) run(s step, mayFail bool, where string) {
	p.t.Helper()
	if s.text == "echo $?" {
		require.Equal(p.t, strings.Join(s.want, "\n"), fmt.Sprint(p.status), "%s: the status of the command before", where)
		return
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), within)
	defer cancel()
	cmd := p.command(ctx, s.text)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(p.t, err, where)
	}
	p.status = cmd.ProcessState.ExitCode()
	if !mayFail {
		require.Zero(p.t, p.status, "%s: $ %s\n%s", where, s.text, out)
	}
	require.Regexp(p.t, pattern(s.want, true), string(out), "%s: $ %s\nwanted:\n%s\ngot:\n%s", where, s.text, strings.Join(s.want, "\n"), out)
}

// command is a shell's, which has no terminal.
func (p *player) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.dir, p.env, time.Second
	return cmd
}

// terminal is another one, whose command goes on.
type terminal struct {
	name  string
	cmd   *exec.Cmd
	ended chan error

	mu   sync.Mutex
	out  bytes.Buffer
	more chan struct{} // closed, and made anew, when there is more
}

// Write takes what the command prints.
func (x *terminal) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	close(x.more)
	x.more = make(chan struct{})
	return x.out.Write(b)
}

// printed returns what the command has printed, and what is closed once there is more.
func (x *terminal) printed() (string, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.out.String(), x.more
}

// open starts a command in another terminal, and waits until it has printed what it should.
func (p *player) open(s step, where string) {
	p.t.Helper()
	x := &terminal{name: s.terminal, ended: make(chan error, 1), more: make(chan struct{})}
	x.cmd = p.command(context.Background(), "exec "+s.text)
	x.cmd.Stdout, x.cmd.Stderr = x, x
	require.NoError(p.t, x.cmd.Start(), where)
	go func() { x.ended <- x.cmd.Wait() }()
	p.others = append(p.others, x)
	x.await(p.t, pattern(s.want, false), where+": $ "+s.text+"\nwanted:\n"+strings.Join(s.want, "\n"))
}

// await waits until the command has printed something.
func (x *terminal) await(t *testing.T, want *regexp.Regexp, what string) {
	t.Helper()
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		out, more := x.printed()
		if want.MatchString(out) {
			return
		}
		select {
		case <-more:
		case err := <-x.ended:
			x.ended <- err
			require.Regexp(t, want, out, "%s\nit has ended (%v), and printed:\n%s", what, err, out)
		case <-late.C:
			require.Regexp(t, want, out, "%s\ngot:\n%s", what, out)
		}
	}
}

// interrupt ends the commands in other terminals, the last one first.
func (p *player) interrupt() {
	p.t.Helper()
	for _, x := range slices.Backward(p.others) {
		_ = x.cmd.Process.Signal(syscall.SIGINT) // it may have ended
		select {
		case err := <-x.ended:
			out, _ := x.printed()
			if err != nil && x.name == "agent" {
				p.t.Errorf("terminal %q: %v\n%s", x.name, err, out)
			}
		case <-time.After(stopIn):
			_ = x.cmd.Process.Kill()
			p.t.Errorf("terminal %q: its command went on after an interrupt: %v", x.name, <-x.ended)
		}
	}
}

// freeAddress is an address of this host where nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
