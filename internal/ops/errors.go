package ops

import (
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/task"
)

// ErrNoTask says that there is no such task, live or finished. It may have been past its retention.
var ErrNoTask = errors.New("no such task")

// InputError is a mistake in a request: the store refuses the values. Its text names the value and the remedy.
type InputError struct{ Text string }

func (e *InputError) Error() string { return e.Text }

// taskError names the task where err says that there is none; any other error stays as it is.
func taskError(id task.ID, err error) error {
	if errors.Is(err, ErrNoTask) {
		return fmt.Errorf("task %d: %w (or its retention is over)", id, ErrNoTask)
	}
	return err
}
