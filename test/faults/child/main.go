// Command child is what the fault suite's agents run as a subprocess: it logs what it does, and does what its
// row's script says of this attempt, most of which is bad.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
)

// Exit codes of sysexits.h that the agent knows.
const (
	exitRejected = 65
	exitDeferred = 75
)

func main() {
	log, err := history.OpenLog(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var e script.Envelope
	if err := json.NewDecoder(os.Stdin).Decode(&e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	a := attempt{log: log, envelope: e, does: e.Does()}
	a.lock(os.Args[2])
	a.report(history.Start, "")
	os.Exit(a.run())
}

// attempt is one run of this program.
type attempt struct {
	log      *history.Log
	envelope script.Envelope
	does     script.Deed
	held     *os.File // the row's lock: the kernel frees it when this process, and what it has started, is dead
}

func (a *attempt) report(w history.What, note string) {
	t := a.envelope.Task
	a.log.Add(history.Event{
		What: w, Who: os.Getenv("WHO"), Kind: a.envelope.Type, Phase: a.envelope.Phase(), ID: t.ID, Fence: t.Fence,
		Attempt: t.Attempt, Note: note,
	})
}

// lock takes the row's lock. Another process that has it is alive, and must not be.
func (a *attempt) lock(dir string) {
	path := filepath.Join(dir, strconv.FormatInt(a.envelope.Task.ID, 10))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		panic(err)
	}
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		other, _ := os.ReadFile(path)
		a.report(history.Overlap, string(other))
	}
	if err := os.WriteFile(path, []byte(strconv.FormatInt(a.envelope.Task.Fence, 10)), 0o600); err != nil {
		panic(err)
	}
	a.held = file
}

// run does what is to be done and gives the exit code.
func (a *attempt) run() int {
	stops := make(chan os.Signal, 16)
	signal.Notify(stops, syscall.SIGTERM)
	go func() { // as long as the process
		for range stops {
			a.report(history.Signal, "TERM")
			if a.does != script.Stubborn && a.does != script.Orphan {
				os.Exit(1)
			}
		}
	}()
	switch a.does {
	case script.Work:
		a.ping(8)
	case script.Fail:
		a.report(history.End, "failed")
		return 1
	case script.Reject:
		a.report(history.End, "rejected")
		return exitRejected
	case script.Later:
		a.report(history.End, "deferred")
		return exitDeferred
	case script.Hang, script.Stubborn, script.Forge:
		time.Sleep(script.Long)
	case script.PingOn:
		a.ping(1 << 20)
	case script.Cut:
		a.report(history.End, "failed") // of a process everybody knows when it has ended
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case script.Flood:
		a.flood()
	case script.Orphan:
		a.orphan()
	default:
		time.Sleep(time.Duration(a.envelope.Task.ID%20) * time.Millisecond)
	}
	return a.finish()
}

// finish ends the attempt well, if what it has to do can be done, and gives the exit code.
func (a *attempt) finish() int {
	how, result := "succeeded", a.envelope.Result()
	if a.envelope.Task.Phase == script.Check {
		how, result = a.ask()
	} else if guard := os.Getenv("GUARD"); guard != "" {
		how = a.guarded(guard)
	}
	a.report(history.End, how)
	if how == "failed" {
		return 1
	}
	if err := os.WriteFile(os.Getenv("LEASEHOLD_RESULT_FILE"), []byte(result), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// ping makes progress n times.
func (a *attempt) ping(n int) {
	pings := os.NewFile(3, "pings")
	for i := range n {
		a.report(history.Ping, strconv.Itoa(i))
		_, _ = fmt.Fprintf(pings, "step %d\n", i) // the reader may be gone
		time.Sleep(script.Step)
	}
}

// flood makes much noise.
func (a *attempt) flood() {
	pings := os.NewFile(3, "pings")
	a.report(history.Ping, "flood")
	for i := range 20_000 {
		_, _ = fmt.Fprintf(pings, "%d\n", i)
	}
	a.report(history.Ping, "flood")
}

// orphan leaves a process of its group behind that holds the row's lock and ends only when it is killed.
func (a *attempt) orphan() {
	cmd := exec.Command("sh", "-c", "trap '' TERM; sleep 1000 & wait; sleep 1000") //nolint:noctx // it is to be left alone
	cmd.ExtraFiles = []*os.File{a.held}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}
