// Command child is what the fault suite's agents run as a subprocess, for one attempt or as a worker: it logs what it does, and
// does what its row's script says of this attempt, most of which is bad.
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
	if os.Getenv("LEASEHOLD_WORKER") != "" {
		os.Exit(serve(log, os.Args[2]))
	}
	var e script.Envelope
	if err := json.NewDecoder(os.Stdin).Decode(&e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	a := attempt{log: log, envelope: e, does: e.Does(), reports: os.NewFile(3, "pings")}
	stops := make(chan os.Signal, 16)
	signal.Notify(stops, syscall.SIGTERM) // before it says that it has begun: what ends it afterwards, it says as well
	a.lock(os.Args[2])
	a.report(history.Start, "")
	go a.heed(stops) // as long as the process
	os.Exit(a.run())
}

// attempt is one run of this program, or one of many.
type attempt struct {
	log      *history.Log
	envelope script.Envelope
	does     script.Deed
	reports  *os.File // descriptor 3
	worker   bool     // it takes JSON
	held     *os.File // the row's lock: the kernel frees it when this process, and what it has started, is dead
}

func (a *attempt) report(w history.What, note string) {
	t := a.envelope.Task
	a.log.Add(history.Event{
		What: w, Who: os.Getenv("WHO"), Kind: a.envelope.Type, Phase: a.envelope.Phase(), ID: t.ID, Fence: t.Fence,
		Attempt: t.Attempt, PID: os.Getpid(), Note: note,
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

// heed ends the process when it is asked to, if its script says so.
func (a *attempt) heed(stops <-chan os.Signal) {
	for range stops {
		a.report(history.Signal, "TERM")
		if a.does != script.Stubborn && a.does != script.Orphan {
			os.Exit(1)
		}
	}
}

// run does what is to be done and gives the exit code.
func (a *attempt) run() int {
	switch a.does {
	case script.Fail:
		a.report(history.End, "failed")
		return 1
	case script.Reject:
		a.report(history.End, "rejected")
		return exitRejected
	case script.Later:
		a.report(history.End, "deferred")
		return exitDeferred
	case script.Cut:
		a.report(history.End, "failed") // of a process everybody knows when it has ended
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	default:
		a.dawdle()
	}
	return a.finish()
}

// dawdle is what an attempt does before it ends well, or for ever.
func (a *attempt) dawdle() {
	switch a.does {
	case script.Work:
		a.ping(8)
	case script.Hang, script.Stubborn, script.Forge:
		time.Sleep(script.Long)
	case script.PingOn:
		a.ping(1 << 20)
	case script.Flood:
		a.flood()
	case script.Orphan:
		a.leave(false)
	default:
		time.Sleep(time.Duration(a.envelope.Task.ID%20) * time.Millisecond)
	}
}

// conclude does what the attempt has to do, and returns how that ends it.
func (a *attempt) conclude() (how, result string) {
	if a.envelope.Task.Phase == script.Check {
		return a.ask()
	}
	if guard := os.Getenv("GUARD"); guard != "" {
		return a.guarded(guard), a.envelope.Result()
	}
	return "succeeded", a.envelope.Result()
}

// finish ends the attempt well, if what it has to do can be done, and gives the exit code.
func (a *attempt) finish() int {
	how, result := a.conclude()
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
	for i := range n {
		a.report(history.Ping, strconv.Itoa(i))
		a.progress("step " + strconv.Itoa(i))
		time.Sleep(script.Step)
	}
}

// flood makes much noise.
func (a *attempt) flood() {
	for i := range 20_000 {
		if i%500 == 0 {
			a.report(history.Ping, "flood")
		}
		a.progress(strconv.Itoa(i))
	}
	a.report(history.Ping, "flood")
}

// progress writes one ping. The reader may be gone.
func (a *attempt) progress(text string) {
	switch t := a.envelope.Task; {
	case !a.worker:
		_, _ = fmt.Fprintln(a.reports, text)
	case t.ID%2 == 0:
		_, _ = fmt.Fprintf(a.reports, "{\"progress\": %q}\n", text)
	default:
		_, _ = fmt.Fprintf(a.reports, "{\"id\": %d, \"fence\": %d, \"progress\": %q}\n", t.ID, t.Fence, text)
	}
}

// leave leaves a process behind that holds the row's lock and ends only when it is killed, in its group or in a session of its own.
func (a *attempt) leave(session bool) {
	cmd := exec.Command("sh", "-c", "trap '' TERM; sleep 1000 & wait; sleep 1000") //nolint:noctx // it is to be left alone
	cmd.ExtraFiles = []*os.File{a.held}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}
