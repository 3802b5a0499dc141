package harness

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// StopWithin bounds how long a process may take to end once it is asked to.
const StopWithin = time.Minute

// keptLines is how much of a process's output is shown when a test fails.
const keptLines = 60

// Process is a program that runs in the background, in a process group of its own. It is killed when the test is over.
type Process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended and all of its output was read

	mu    sync.Mutex
	lines []string // the latest
	marks map[string]chan struct{}
}

// StartProcess starts a program. A line of its output that contains one of marks can be waited for.
func StartProcess(t testing.TB, name string, cmd *exec.Cmd, marks ...string) *Process {
	t.Helper()
	p := &Process{name: name, cmd: cmd, ended: make(chan struct{}), marks: make(map[string]chan struct{})}
	for _, m := range marks {
		p.marks[m] = make(chan struct{})
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, in, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	require.NoError(t, in.Close())
	require.NoError(t, err)
	go func() { // ends with the process: its group is killed at the end of the test at the latest
		defer close(p.ended)
		p.read(out)
		_ = cmd.Wait() // what became of it is in cmd.ProcessState
		_ = out.Close()
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may be over already
		<-p.ended
		if t.Failed() {
			t.Logf("what %s said last:\n%s", name, p.Tail())
		}
	})
	return p
}

// read keeps the latest lines and looks for marks.
func (p *Process) read(out io.Reader) {
	lines := bufio.NewReaderSize(out, 1<<16)
	for {
		line, err := lines.ReadString('\n')
		p.mu.Lock()
		if line != "" {
			p.lines = append(p.lines[max(0, len(p.lines)-keptLines+1):], line)
		}
		for mark, seen := range p.marks {
			if strings.Contains(line, mark) {
				delete(p.marks, mark)
				close(seen)
			}
		}
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Tail is the end of what the process printed.
func (p *Process) Tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "")
}

// Await waits until a line with the mark has come.
func (p *Process) Await(t testing.TB, mark string, within time.Duration) {
	t.Helper()
	p.mu.Lock()
	seen, waits := p.marks[mark]
	p.mu.Unlock()
	if !waits { // it has come already
		return
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-seen:
	case <-p.ended:
		require.Fail(t, p.name+" ended before it said "+mark, p.Tail())
	case <-timer.C:
		require.Fail(t, p.name+" has not said "+mark+" within "+within.String(), p.Tail())
	}
}

// Signal sends a signal to the process, and to nothing that it has started.
func (p *Process) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(sig), "signal %s", p.name)
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Wait waits for the process to end and gives its exit code, -1 for one that a signal ended.
func (p *Process) Wait(t testing.TB) int {
	t.Helper()
	timer := time.NewTimer(StopWithin)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		require.Fail(t, p.name+" has not ended within "+StopWithin.String(), p.Tail())
	}
	return p.cmd.ProcessState.ExitCode()
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGKILL)
	require.Equal(t, -1, p.Wait(t))
}

// PeakMemory is the most memory that the process has had at once, in bytes (VmHWM of proc(5)); where the system does
// not report that, what it has now.
func (p *Process) PeakMemory(t testing.TB) int64 {
	t.Helper()
	pid := strconv.Itoa(p.cmd.Process.Pid)
	var number string
	if status, err := os.ReadFile("/proc/" + pid + "/status"); err == nil {
		_, after, _ := strings.Cut(string(status), "VmHWM:")
		number = strings.Fields(after)[0]
	} else {
		out, err := exec.CommandContext(t.Context(), "ps", "-o", "rss=", "-p", pid).Output()
		require.NoError(t, err)
		number = strings.TrimSpace(string(out))
	}
	kilobytes, err := strconv.ParseInt(number, 10, 64)
	require.NoError(t, err)
	return kilobytes << 10
}

// FreePort is a port of 127.0.0.1 that nothing listens on.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().(*net.TCPAddr).Port
}

// Until asks every 20 ms whether something is so, and fails the test if it is not within the time.
func Until(t testing.TB, within time.Duration, what string, so func() bool) {
	t.Helper()
	timer, tick := time.NewTimer(within), time.NewTicker(20*time.Millisecond)
	defer timer.Stop()
	defer tick.Stop()
	for !so() {
		select {
		case <-timer.C:
			require.Fail(t, "not within "+within.String()+": "+what)
		case <-tick.C:
		}
	}
}
