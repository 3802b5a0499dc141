package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
)

// What a worker does between attempts, one time in so many.
const (
	neverReady   = 24
	slowlyReady  = 12
	diesUnread   = 24
	diesHalfRead = 48
	deaf         = 6 // for its whole life it ignores the end of standard input, and requests to stop while it runs nothing
)

// worker is this program as it runs one attempt after another.
type worker struct {
	log    *history.Log
	locks  string
	chance *rand.Rand
	in     *bufio.Reader
	out    *os.File // descriptor 3
	deaf   bool
	before string // the last line of the attempt before; "": there was none

	mu  sync.Mutex
	now *attempt // nil: none runs
}

// serve runs attempts until standard input ends, and returns the exit code.
func serve(log *history.Log, locks string) int {
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	w := &worker{
		log: log, locks: locks, in: bufio.NewReader(os.Stdin), out: os.NewFile(3, "lines"),
		chance: rand.New(rand.NewPCG(seed, uint64(os.Getpid()))),
	}
	w.deaf = w.oneIn(deaf)
	go w.heedSignals() // as long as the process
	switch {
	case w.oneIn(neverReady):
		return 1
	case w.oneIn(slowlyReady):
		time.Sleep(script.Step)
	}
	w.write(`{"ready": true}`)
	for {
		if w.oneIn(diesUnread) {
			_, _ = unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, int(script.Step.Milliseconds()))
			return 1
		}
		if w.oneIn(diesHalfRead) {
			_, _ = w.in.ReadByte()
			return 1
		}
		line, err := w.in.ReadBytes('\n')
		if err != nil {
			if w.deaf {
				time.Sleep(script.Long)
			}
			return 0
		}
		w.attempt(line)
	}
}

func (w *worker) oneIn(n int) bool { return w.chance.IntN(n) == 0 }

// heedSignals ends the process when it is asked to, unless its attempt does not.
func (w *worker) heedSignals() {
	stops := make(chan os.Signal, 16)
	signal.Notify(stops, syscall.SIGTERM)
	for range stops {
		w.mu.Lock()
		a := w.now
		if a != nil {
			a.report(history.Signal, "TERM")
		}
		stays := a == nil && w.deaf || a != nil && (a.does == script.Stubborn || a.does == script.Orphan || a.does == script.Litter)
		w.mu.Unlock()
		if !stays {
			os.Exit(1)
		}
	}
}

// attempt runs one.
func (w *worker) attempt(line []byte) {
	var e script.Envelope
	if err := json.Unmarshal(line, &e); err != nil {
		panic(err)
	}
	a := &attempt{log: w.log, envelope: e, does: e.Does(), reports: w.out, worker: true}
	if a.does == script.Faint {
		w.die(a)
	}
	a.lock(w.locks)
	w.mu.Lock()
	w.now = a
	a.report(history.Start, "")
	w.mu.Unlock()
	w.run(a)
}

// run does what is to be done, and ends it.
func (w *worker) run(a *attempt) {
	switch a.does {
	case script.Fail:
		w.end(a, "failed", "")
		return
	case script.Reject:
		w.end(a, "rejected", "")
		return
	case script.Later:
		w.end(a, "deferred", "")
		return
	case script.Litter:
		a.leave(w.oneIn(2))
		w.end(a, "failed", "")
		return
	case script.Stray:
		w.stray(a)
	default:
		w.neverEnd(a)
		a.dawdle()
	}
	how, result := a.conclude()
	line := w.end(a, how, result)
	switch a.does {
	case script.Parting:
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case script.Twice:
		time.Sleep(time.Duration(w.chance.Int64N(int64(50 * time.Millisecond))))
		w.write("%s", line)
	default:
	}
}

// neverEnd does what never comes to an end; other attempts go on.
func (w *worker) neverEnd(a *attempt) {
	switch a.does {
	case script.Echo:
		w.echo(a)
	case script.Nobody:
		w.write(`{"result": {"id": %d, "fence": %d}}`, a.envelope.Task.ID, a.envelope.Task.Fence)
	case script.Shut:
		_ = w.out.Close()
	case script.Quit:
		a.report(history.End, "failed")
		os.Exit(0)
	case script.Torn:
		_, _ = io.WriteString(w.out, w.last(a, "succeeded", a.envelope.Result())[:20])
		w.die(a)
	case script.Cut:
		w.die(a)
	case script.Freeze:
		a.report(history.Stopped, "")
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	case script.Forge:
		w.forge(a)
	default:
		return
	}
	time.Sleep(script.Long)
}

// die kills the process. Everybody knows when it has ended: that is the end of its attempt.
func (w *worker) die(a *attempt) {
	a.report(history.End, "failed")
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
}

// end writes the last line of an attempt, after which nothing belongs to it, and returns the line.
func (w *worker) end(a *attempt, how, result string) (line string) {
	line = w.last(a, how, result)
	w.mu.Lock()
	a.report(history.End, how)
	w.now = nil
	w.mu.Unlock()
	_ = a.held.Close() // the row is another attempt's from the line on
	w.write("%s", line)
	w.before = line
	return line
}

// last is the last line of an attempt that ends so.
func (w *worker) last(a *attempt, how, result string) string {
	t := a.envelope.Task
	failure, err := json.Marshal(a.envelope.Failure(how))
	if err != nil {
		panic(err) // it is a string
	}
	var end string
	switch how {
	case "failed":
		end = fmt.Sprintf(`"error": %s`, failure)
	case "rejected":
		end = fmt.Sprintf(`"error": %s, "retryable": false`, failure)
	case "deferred":
		end = `"deferred": {"retry_after_s": 0.05}`
	default:
		end = `"result": ` + result
	}
	return fmt.Sprintf(`{"id": %d, "fence": %d, %s}`, t.ID, t.Fence, end)
}

// echo writes a last line of another attempt: of the one before in this process, or of one that the row had before.
func (w *worker) echo(a *attempt) {
	line := w.before
	if line == "" {
		t := a.envelope.Task
		line = fmt.Sprintf(`{"id": %d, "fence": %d, "result": {"id": %d, "fence": %d}}`, t.ID, t.Fence-1, t.ID, t.Fence-1)
	}
	w.write("%s", line)
}

// stray writes lines that mean nothing to the agent.
func (w *worker) stray(a *attempt) {
	for _, line := range []string{"", "done", "[1, 2]", `{"ready": true}`, `{"progress": 7}`, "\xff\x00", `"error"`, "null"} {
		w.write("%s", line)
	}
	a.ping(2)
}

// forge pings in the name of other attempts, and with what is no ping.
func (w *worker) forge(a *attempt) {
	t := a.envelope.Task
	for i := range 40 {
		for _, fence := range []int64{t.Fence - 1, t.Fence + 1, t.Fence + 2} {
			w.write(`{"id": %d, "fence": %d, "progress": "%d"}`, t.ID, fence, i)
		}
		w.write(`{"id": %d, "fence": %d, "progress": "%d"}`, t.ID+1, t.Fence, i)
		w.write("%d", i)
		time.Sleep(script.Step / 4)
	}
}

// write writes a line to the agent, which may be gone.
func (w *worker) write(format string, args ...any) { _, _ = fmt.Fprintf(w.out, format+"\n", args...) }
