package ping

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Datagram reads what came on a notify socket (sd_notify(3)): assignments, one a line. alive is true where it proves that
// the task is alive: WATCHDOG=1, a position, a checkpoint, or a request for more time. STATUS= alone is only a message.
// Everything else that a service sends to its manager (READY=1, MAINPID=, FDSTORE=1, WATCHDOG=trigger, …) is ignored. Errors
// are *Error, and then nothing of the datagram counts.
func Datagram(d []byte) (p store.Ping, alive bool, err error) {
	if len(d) > MaxBody {
		return p, false, tooLarge("the datagram", len(d), MaxBody)
	}
	for line := range strings.Lines(string(d)) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "=")
		switch name {
		case "WATCHDOG":
			alive = alive || value == "1"
		case "STATUS":
			p.Message = task.Text(value, store.MaxMessage)
		case "X_LEASEHOLD_PROGRESS":
			if p.Progress, err = Text(value); err != nil {
				return store.Ping{}, false, err
			}
			alive = alive || p.Progress != nil
		case "X_LEASEHOLD_CHECKPOINT":
			if p.Checkpoint, err = Checkpoint(value); err != nil {
				return store.Ping{}, false, err
			}
			alive = alive || p.Checkpoint != nil
		case "EXTEND_TIMEOUT_USEC":
			if p.NextWithin, err = microseconds(value); err != nil {
				return store.Ping{}, false, err
			}
			alive = true
		}
	}
	return p, alive, nil
}

// Checkpoint reads a checkpoint on its own: JSON, or nothing. Its errors are *Error.
func Checkpoint(s string) (json.RawMessage, error) {
	return checkpoint(json.RawMessage(strings.TrimSpace(s)))
}

func microseconds(s string) (time.Duration, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	if err != nil || n == 0 {
		return 0, malformed("EXTEND_TIMEOUT_USEC must be a whole number above 0")
	}
	return time.Duration(min(n, uint64(maxWithin/time.Microsecond))) * time.Microsecond, nil
}
