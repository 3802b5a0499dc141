//go:build linux

package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// agent is a place for an agent: a process in it may die, and another takes its place.
type agent struct {
	w     *world
	name  string
	store *url.URL // of the database, by way of its proxy
	proxy *proxy
	clock *control
	disk  *smallDisk // nil: there is none

	mu      sync.Mutex
	program string
	revised bool     // its configuration is that of the next version
	flags   []string // of `run`
	cmd     *exec.Cmd
	round   int // how many processes there have been
	leaving int // the last of them that was asked to end, or killed
	ready   int // the last of them that was seen ready
	addr    string
	ended   running // the present process, or the last one; nil: there was none
	exit    error   // of the last one that has ended
}

// who is the present process, as events name it. a.mu is held.
func (a *agent) who() string { return a.name + "." + strconv.Itoa(a.round) }

// start starts a process with more in its environment.
func (a *agent) start(env ...string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended != nil {
		select {
		case <-a.ended:
		default:
			return nil // it is there
		}
	}
	a.round++
	who := a.who()
	file := filepath.Join(a.w.dir, who+".hcl")
	if err := os.WriteFile(file, []byte(a.declaration(who)), 0o600); err != nil {
		return err
	}
	args := append([]string{"run", "--store", a.store.String()}, a.flags...)
	cmd := exec.Command(a.program, append(args, file)...) //nolint:noctx // endAll ends it
	cmd.Dir = a.w.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + a.w.dir, "TMPDIR=" + a.temp(), "LEASEHOLD_FAULT_CLOCK=" + a.clock.path,
	}, append(a.w.env, env...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return fmt.Errorf("start %s: %w", who, err)
	}
	ended := make(running)
	a.cmd, a.ended = cmd, ended
	a.w.all.Go(func() {
		defer close(ended)
		a.listen(who, out)
		err := cmd.Wait()
		a.w.log.Add(history.Event{What: history.Killed, Who: who, Note: fmt.Sprint(err)})
		a.mu.Lock()
		defer a.mu.Unlock()
		a.addr, a.exit = "", err
		if a.w.o.later > 0 && a.leaving < a.round {
			a.w.fail(fmt.Errorf("%s ended although nothing asked it to: %w", who, err))
		}
	})
	return nil
}

func (a *agent) temp() string {
	if a.disk != nil {
		return a.disk.path
	}
	return a.w.dir
}

// listen keeps what a process says, and takes from it what the checker needs.
func (a *agent) listen(who string, out io.ReadCloser) {
	defer out.Close() //nolint:errcheck // it was only read
	file, err := os.Create(filepath.Join(a.w.dir, who+".log"))
	if err != nil {
		a.w.fail(err)
		_, _ = io.Copy(io.Discard, out)
		return
	}
	defer file.Close() //nolint:errcheck // only to be read by hand
	lines := bufio.NewReaderSize(out, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		_, _ = file.Write(line)
		var entry struct {
			Msg    string `json:"msg"`
			Listen string `json:"listen"`
			Task   int64  `json:"task"`
			Fence  int64  `json:"fence"`
		}
		if a.w.o.later > 0 && misunderstood.Match(line) {
			a.w.fail(fmt.Errorf("%s does not understand the schema: %s", who, line))
		}
		if json.Unmarshal(line, &entry) == nil {
			a.logged(who, entry.Msg, entry.Listen, entry.Task, entry.Fence)
		}
		if err != nil {
			return
		}
	}
}

// logged records what an entry of the agent's log means to the run.
func (a *agent) logged(who, msg, listen string, id, fence int64) {
	switch {
	case msg == "agent starting":
		a.mu.Lock()
		a.addr = strings.TrimPrefix(listen, "http://")
		a.mu.Unlock()
	case msg == "agent ready":
		a.w.log.Add(history.Event{What: history.Up, Who: who})
	case id > 0 && (msg == saidRefused || msg == saidLost):
		a.w.say(history.Said{At: history.Now(), Who: who, Text: msg, ID: id, Fence: fence})
	}
}

// misunderstood matches errors of statements that do not fit the schema: PostgreSQL's classes 42 (a name is missing) and 0A
// (a prepared statement returns other columns than before), and what SQLite says.
var misunderstood = regexp.MustCompile(`SQLSTATE (42|0A)|no such (column|table|function)|has no column|schema has changed`)

// What an agent logs about rows that it considers another's.
const (
	saidRefused = "outcome refused: another has taken the row"
	saidLost    = "lease lost: another holds the row"
)

// address is where it listens; "" while it is not there.
func (a *agent) address() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.addr
}

// signal sends the process a signal, if it is there. It returns that process: another fault may have started the next one at
// any time after that.
func (a *agent) signal(s syscall.Signal) running {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended == nil {
		return nil
	}
	select {
	case <-a.ended:
		return a.ended
	default:
	}
	switch s {
	case syscall.SIGSTOP:
		a.w.log.Add(history.Event{What: history.Frozen, Who: a.who()})
	case syscall.SIGCONT:
		defer a.w.log.Add(history.Event{What: history.Thawed, Who: a.who()})
	default:
		a.leaving = a.round
	}
	_ = a.cmd.Process.Signal(s) // it may have ended
	return a.ended
}

// running is a process of an agent: a channel that is closed when it has ended; nil: there was none.
type running chan struct{}

// await waits until the process has ended; it is false where it does not in time.
func (r running) await(within time.Duration) bool {
	if r == nil {
		return true
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-r:
		return true
	case <-timer.C:
		return false
	}
}
