package ops

import (
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// taskError names the task where err says that there is none; any other error stays as it is.
func taskError(id task.ID, err error) error {
	if errors.Is(err, store.ErrNoTask) {
		return fmt.Errorf("task %d: %w (or its retention is over)", id, store.ErrNoTask)
	}
	return err
}

// NoTask is the error of a task that does not exist.
func NoTask(id task.ID) error { return taskError(id, store.ErrNoTask) }
