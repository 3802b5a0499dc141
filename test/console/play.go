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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// Bounds of a command, and of what another terminal prints.
const (
	within = 2 * time.Minute
	stopIn = 30 * time.Second
)

// Setting is what a page is played in, beside its directory.
type Setting struct {
	Binary  string   // leasehold, first in PATH
	Env     []string // on top of the test's own; with a PATH of its own, that comes behind the binary's directory
	Install string   // a shell's command in place of those in blocks "console install"
}

// ports are those that pages name. Played they are others, which are free.
var ports = regexp.MustCompile(`\b(3000|7070|7071|8000|8080)\b`)

// Play plays the page at a path, in a directory of its own.
func Play(t *testing.T, page string, in Setting) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	p := &player{t: t, dir: t.TempDir(), install: in.Install, ports: map[string]string{}}
	steps, err := document(p.ported(string(text)))
	require.NoError(t, err, page)
	listen := filepath.Join(t.TempDir(), "listen.hcl")
	require.NoError(t, os.WriteFile(listen, []byte(p.ported("agent {\n  listen = \"127.0.0.1:7070\"\n}\n")), 0o600))
	p.env = environment(in, p.dir, listen)
	defer p.interrupt()
	for i, s := range steps {
		where := fmt.Sprintf("%s:%d", filepath.Base(page), s.line)
		switch {
		case s.file != "":
			p.write(s)
		case s.terminal == "install":
			p.fetch(where)
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
	t       *testing.T
	dir     string
	env     []string
	install string
	ports   map[string]string // those of the page, and what they are here
	status  int               // of the last command
	others  []*terminal
}

// ported is a text with the ports that are free here.
func (p *player) ported(text string) string {
	return ports.ReplaceAllStringFunc(text, func(port string) string {
		if p.ports[port] == "" {
			p.ports[port] = strconv.Itoa(harness.FreePort(p.t))
		}
		return p.ports[port]
	})
}

// fetch runs what stands for the first commands of the page that fetch something; it does so for the others, too.
func (p *player) fetch(where string) {
	p.t.Helper()
	if p.install != "" {
		p.run(step{text: p.install, want: []string{"…"}}, false, where)
	}
	p.install = ""
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
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	p.t.Logf("%s: $ %s\n%s", where, s.text, out)
	require.Regexp(p.t, pattern(s.want, true), string(out), "%s: $ %s\nwanted:\n%s\ngot:\n%s", where, s.text, strings.Join(s.want, "\n"), out)
}

// command is a shell's, which has no terminal. It has a process group of its own, as in a terminal.
func (p *player) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.dir, p.env, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
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

// open starts a command in another terminal, and waits until it has printed what it should, and listens on the ports in that.
func (p *player) open(s step, where string) {
	p.t.Helper()
	x := &terminal{name: s.terminal, ended: make(chan error, 1), more: make(chan struct{})}
	x.cmd = p.command(context.Background(), "exec "+s.text)
	x.cmd.Stdout, x.cmd.Stderr = x, x
	require.NoError(p.t, x.cmd.Start(), where)
	go func() { x.ended <- x.cmd.Wait() }()
	p.others = append(p.others, x)
	wanted := strings.Join(s.want, "\n")
	x.await(p.t, pattern(s.want, false), where+": $ "+s.text+"\nwanted:\n"+wanted)
	for _, port := range p.ports {
		if strings.Contains(wanted, ":"+port) {
			harness.Until(p.t, within, where+": something listens on port "+port, func() bool { return listens(p.t, port) })
		}
	}
}

// listens reports whether a port of this host takes connections.
func listens(t *testing.T, port string) bool {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
	return err == nil && conn.Close() == nil
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

// interrupt ends the commands in other terminals, the last one first, as Ctrl-C does.
func (p *player) interrupt() {
	p.t.Helper()
	for _, x := range slices.Backward(p.others) {
		_ = syscall.Kill(-x.cmd.Process.Pid, syscall.SIGINT) // it may have ended
		select {
		case err := <-x.ended:
			out, _ := x.printed()
			if err != nil && x.name == "agent" {
				p.t.Errorf("terminal %q: %v\n%s", x.name, err, out)
			}
		case <-time.After(stopIn):
			p.t.Errorf("terminal %q: its command went on after an interrupt", x.name)
		}
		_ = syscall.Kill(-x.cmd.Process.Pid, syscall.SIGKILL) // what it has left behind, too
	}
}

// environment is that of the page's commands. The agents among them listen where a second configuration says.
func environment(in Setting, dir, listen string) []string {
	env := append(os.Environ(), in.Env...)
	path := os.Getenv("PATH")
	for _, v := range in.Env {
		if given, ok := strings.CutPrefix(v, "PATH="); ok {
			path = given
		}
	}
	config := filepath.Join(dir, "leasehold.hcl")
	return append(env, "PATH="+filepath.Dir(in.Binary)+string(os.PathListSeparator)+path,
		"LEASEHOLD_CONFIG="+config+string(os.PathListSeparator)+listen, "COLUMNS=100", "PYTHONUNBUFFERED=1")
}
