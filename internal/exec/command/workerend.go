package command

import (
	"fmt"
	"strconv"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command/reason"
	"github.com/leasehold/leasehold/internal/task"
)

// Output returns what was printed since the last call, as far as it has arrived: its head and its tail.
func (w *Worker) Output() string { return w.process.out.cut() }

// Move has the guardian process know that everything of the worker is to be dead KillMargin before that local time of
// lease.BootClock; Unbound: before the session's presence runs out.
func (w *Worker) Move(end time.Duration) {
	if w.process.hold.guardian != nil {
		w.process.hold.move(func() time.Duration { return end })
	}
}

// Unbound is the end of the window of a worker that runs no attempt.
const Unbound = noWindow

// Now is the local time by which Move goes.
func (w *Worker) Now() time.Duration { return w.runner.guard.now() }

// Overdue reports whether the guardian process may have killed the worker.
func (w *Worker) Overdue() bool { return w.process.hold.overdue() }

// Status is how the process ended, in words.
func (w *Worker) Status() string {
	switch s := w.process.status(); {
	case s.unknown:
		return "its status is unknown"
	case s.signal != 0:
		return "killed by " + signalName(s.signal)
	default:
		return "exit code " + strconv.Itoa(s.code)
	}
}

// Killed reports whether SIGKILL ended the process.
func (w *Worker) Killed() bool { return w.process.status().signal == syscall.SIGKILL }

// Signal sends the stop signal to the whole group.
func (w *Worker) Signal() { w.process.signal(w.command.StopSignal) }

// AwaitGone waits until nothing is left of the group, for at most d.
func (w *Worker) AwaitGone(d time.Duration) bool { return w.process.awaitGone(max(d, 0)) }

// Kill kills the group and all that has left it, and reports whether nothing is left.
func (w *Worker) Kill() (gone bool) {
	gone = w.process.gone() || w.process.kill(killFor)
	return w.process.hold.clear(killFor) && gone
}

// Close takes in what the process has left to be read, and closes all of our ends. It comes once the process has ended, or
// should have. It returns what was printed since the last call of Output.
func (w *Worker) Close() (output string) {
	w.HangUp()
	w.EndWrite()
	w.reports.close()
	return w.process.out.finish()
}

// Drain takes in what the process has reported before its end, without waiting for others that hold its descriptor 3 open.
func (w *Worker) Drain() { w.reports.drain() }

// Release gives up what the worker had, once nothing is left of it, and after Close. gone says whether that is so; where it
// is not, the worker is killed again and again, and what is returned is closed once it is.
func (w *Worker) Release(gone bool) (stuck <-chan struct{}) {
	if gone {
		_ = w.process.release() // there is no private directory that could stay
		return nil
	}
	done := make(chan struct{})
	log, pid := w.runner.log, w.process.pid
	log.Error("processes of a worker did not die of SIGKILL; their slot is not used until they are gone", "group", pid)
	w.process.killUntilGone(true, func() {
		_ = w.process.release()
		log.Info("processes of a worker that did not die of SIGKILL are gone", "group", pid)
		close(done)
	})
	return done
}

// Exit is what the end of the process means to the attempt that ran in it for that long, by the exit table of
// docs/protocol.md: an exit 0 without a last line has failed.
func (w *Worker) Exit(lived time.Duration, output string) task.Outcome {
	var o task.Outcome
	switch s := w.process.status(); {
	case s.unknown:
		o = task.Outcome{Verdict: task.Failed, Error: "the worker ended with an unknown status"}
	case s.signal != 0:
		o = w.runner.killed(ending{exit: s, lived: lived})
	default:
		o = byCode(s.code, w.command.ExitCodes, nil)
		if o.Verdict == task.Succeeded {
			const why = "the worker exited with code %d and wrote no last line for the attempt"
			o = task.Outcome{Verdict: task.Failed, Error: fmt.Sprintf(why, s.code)}
		}
	}
	if line := reason.Of(output); line != "" {
		o.Error += ": " + line
	}
	o.Output = output
	return o
}
