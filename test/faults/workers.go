//go:build linux

package faults

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
	"github.com/leasehold/leasehold/test/harness"
)

// betweenKills is how long the nemesis waits between two workers that it kills, at most.
const betweenKills = 100 * time.Millisecond

// betweenLooks is how often it is looked which processes of attempts are there.
const betweenLooks = 250 * time.Millisecond

// workersScript lists how attempts of workers fail, and how they end well.
func workersScript() (bad, end []script.Deed) {
	bad = []script.Deed{
		script.Fail, script.Later, script.Cut, script.Hang, script.Stubborn, script.PingOn, script.Forge,
		script.Quit, script.Torn, script.Faint, script.Echo, script.Nobody, script.Litter, script.Freeze, script.Shut,
	}
	end = []script.Deed{
		script.OK, script.OK, script.OK, script.Work, script.Stray, script.Parting, script.Twice, script.Flood, script.Orphan,
	}
	return bad, end
}

// childrenOf lists the processes that attempts of an agent run in. who is "" for those of all agents.
func (w *world) childrenOf(who string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is right
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		argv := bytes.Split(text, []byte{0}) // the last one is empty
		if len(argv) < 4 || string(argv[0]) != w.programs.Child || string(argv[1]) != w.logPath || who != "" && string(argv[3]) != who {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// workersOf lists those of them that are workers.
func (w *world) workersOf(who string) []int {
	return slices.DeleteFunc(w.childrenOf(who), func(pid int) bool {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		return err != nil || !slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == "LEASEHOLD_WORKER=1" })
	})
}

// watchChildren writes down which processes of attempts are no more, until ctx ends: on a busy machine one that is asked to stop may be killed
// before it gets to say so.
func (w *world) watchChildren(ctx context.Context) {
	tick := time.NewTicker(betweenLooks)
	defer tick.Stop()
	for there, seen := []int(nil), history.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := history.Now()
		now := w.childrenOf("")
		for _, pid := range there {
			if !slices.Contains(now, pid) {
				w.log.AddAt(seen, history.Event{What: history.Dead, PID: pid})
			}
		}
		there, seen = now, began
	}
}

// present is the agent's process, as events name it.
func (a *agent) present() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.who()
}

// hurt sends a signal to one of an agent's workers, if there is one, and writes that down before. It returns the process; 0: there
// was none.
func (n *nemesis) hurt(a *agent, r *rand.Rand, what history.What, s syscall.Signal) (pid int) {
	who := a.present()
	pids := n.w.workersOf(who)
	if len(pids) == 0 {
		return 0
	}
	pid = pids[r.IntN(len(pids))]
	n.w.log.Add(history.Event{What: what, Who: who, PID: pid})
	_ = syscall.Kill(pid, s) // it may have ended
	return pid
}

// killWorkers kills one of an agent's workers after another, at any moment.
func killWorkers(n *nemesis, a *agent, r *rand.Rand) (func() error, string, error) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // until it is mended
		defer close(done)
		for {
			timer := time.NewTimer(upTo(r, betweenKills))
			select {
			case <-stop:
				timer.Stop()
				return
			case <-timer.C:
				n.hurt(a, r, history.Slain, syscall.SIGKILL)
			}
		}
	}()
	return func() error {
		close(stop)
		<-done
		return nil
	}, "", nil
}

// freezeWorker has one of an agent's workers stand still.
func freezeWorker(n *nemesis, a *agent, r *rand.Rand) (func() error, string, error) {
	pid := n.hurt(a, r, history.Stopped, syscall.SIGSTOP)
	if pid == 0 {
		return nil, "(there was none)", nil
	}
	return func() error {
		_ = syscall.Kill(pid, syscall.SIGCONT) // it has ended, mostly
		return nil
	}, strconv.Itoa(pid), nil
}

// noWorkers waits until no worker is left: all agents have ended.
func (w *world) noWorkers() bool {
	for end := time.Now().Add(harness.StopWithin); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if len(w.workersOf("")) == 0 {
			return true
		}
	}
	return false
}
