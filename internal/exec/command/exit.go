package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/exec/command/reason"
	"github.com/leasehold/leasehold/internal/task"
)

// Exit codes with a meaning of their own (sysexits.h).
const (
	exitUsage    = 64 // EX_USAGE
	exitData     = 65 // EX_DATAERR
	exitTempFail = 75 // EX_TEMPFAIL
)

// readResult is how many bytes of a result are read: one more than are kept, to see that it was too long.
const readResult = task.MaxResult + 1

// notStarted is the outcome of a command that did not start.
func notStarted(err error) task.Outcome {
	o := task.Outcome{Verdict: task.Undelivered, Error: err.Error(), NeverStarted: true}
	// The row's data made the arguments too long, or something else that no other attempt will end better with.
	if _, ok := errors.AsType[*rowError](err); ok || errors.Is(err, unix.E2BIG) {
		o.Verdict = task.Rejected
	}
	if errors.Is(err, errLate) {
		o.Verdict = task.Drained
	}
	return o
}

// outcome is what an ending means: after a stop the stop's cause, unless the command finished its work all the same;
// else the exit table of docs/protocol.md.
func (a *attempt) outcome(end ending) task.Outcome {
	body, size, note := a.process.dir.result()
	var o task.Outcome
	switch {
	case end.stopped != nil && !(end.exit.ok() && len(body) > 0):
		o = end.stopped.Outcome()
	case end.exit.unknown && end.gone: // another part of the agent's process waited for it
		o = task.Outcome{Verdict: task.Failed, Error: "the process ended with an unknown status"}
	case end.exit.unknown:
		o = task.Outcome{Verdict: task.Failed, Error: "the process did not end"}
	case end.exit.signal != 0:
		o = a.runner.killed(end)
	default:
		o = byCode(end.exit.code, a.command.ExitCodes, body)
	}
	if o.Verdict == task.Succeeded {
		o.Result, o.Note = answer.Result(body, size)
		if note != "" {
			o.Note = note
		}
	} else if line := reason.Of(end.output); line != "" && end.stopped == nil {
		o.Error += ": " + line
	}
	o.Output = end.output
	if !end.gone {
		o.EndUnknown = true
		o.Error += " (processes of it are still there after SIGKILL)"
		if o.Verdict == task.Succeeded {
			o.Error = ""
		}
	}
	return o
}

// byCode is the exit table, the declared codes first.
func byCode(code int, declared map[int]task.Verdict, result []byte) task.Outcome {
	verdict, ok := declared[code]
	if !ok {
		switch code {
		case 0:
			verdict = task.Succeeded
		case exitUsage, exitData:
			verdict = task.Rejected
		case exitTempFail:
			verdict = task.Deferred
		default:
			verdict = task.Failed
		}
	}
	o := task.Outcome{Verdict: verdict}
	if verdict != task.Succeeded {
		o.Error = fmt.Sprintf("exit code %d", code)
	}
	if verdict == task.Deferred {
		o.RetryAfter = retryAfter(result)
	}
	return o
}

// retryAfter reads {"retry_after_s": 30} from a result file, within limits; 0 where there is nothing to go by.
func retryAfter(result []byte) time.Duration {
	var request struct {
		Seconds *float64 `json:"retry_after_s"`
	}
	if json.Unmarshal(result, &request) != nil || request.Seconds == nil {
		return 0
	}
	return answer.Seconds(*request.Seconds)
}

// killed is the outcome of a command that was not asked to stop and that a signal ended. Nothing that has hardly begun kills
// itself by SIGKILL but on purpose: where the agent knows of no reason, something of its surroundings did, mostly.
func (r *Runner) killed(end ending) task.Outcome {
	s := end.exit.signal
	o := task.Outcome{Verdict: task.Failed, Error: "killed by " + signalName(s)}
	switch {
	case s != unix.SIGKILL:
	case r.oom.rose():
		o.Error += ", probably by the kernel: out of memory"
	case end.lived < task.Moments:
		o.Verdict, o.Brief = task.Drained, true
		o.Error += " " + task.BriefNote + ", by something that the agent does not know of"
	}
	return o
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
