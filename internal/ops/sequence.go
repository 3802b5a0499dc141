package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Sequences is what operators do with the sequences of types. None of it waits for an agent.
type Sequences interface {
	// ListSequences returns those with rows that wait, run or have failed, by type and name.
	ListSequences(ctx context.Context, f store.SequenceFilter) (store.SequenceList, error)
	// SequenceRows returns the first live rows of a sequence, in its order, so many at most.
	SequenceRows(ctx context.Context, typ, name string, most int) ([]task.ID, error)
	// SkipSequence resolves the failure that blocks a sequence, and returns the failed task. With an id it does so only if that task is the
	// one. Refused (*store.RefusedError) where none does; ErrNoSequence.
	SkipSequence(ctx context.Context, typ, name string, id task.ID, by string) (task.ID, error)
	// RetrySequence retries the failed task that blocks a sequence, as SkipSequence resolves its failure.
	RetrySequence(ctx context.Context, typ, name string, id task.ID, by string) (task.ID, error)
	// CancelSequence cancels waiting tasks of a sequence, at most a thousand, and resolves its failures, theirs included. It returns how
	// many it has cancelled: repeat it until there are none.
	CancelSequence(ctx context.Context, typ, name, by string) (int, error)
}

// shownRows is how many of the next tasks of a sequence are shown.
const shownRows = 10

// SequenceDetail is a sequence with its first live tasks.
type SequenceDetail struct {
	store.SequenceInfo

	Next []task.ID `json:"next_tasks,omitempty"` // in the order of the sequence
}

// ShowSequence returns a sequence; ErrNoSequence where no row of it waits, runs, or has a failure that blocks it.
func ShowSequence(ctx context.Context, s Sequences, typ, name string) (d SequenceDetail, err error) {
	all, err := s.ListSequences(ctx, store.SequenceFilter{Type: typ, Name: name, Limit: 1})
	if err != nil {
		return d, err
	}
	if len(all.List) == 0 {
		return d, SequenceError(typ, name, store.ErrNoSequence)
	}
	d.SequenceInfo = all.List[0]
	d.Next, err = s.SequenceRows(ctx, typ, name, shownRows)
	return d, err
}

// SequenceError names a sequence that does not exist.
func SequenceError(typ, name string, err error) error {
	if errors.Is(err, store.ErrNoSequence) {
		return fmt.Errorf("sequence %q of type %q: %w: `leasehold sequence list` shows those that exist", name, typ, store.ErrNoSequence)
	}
	return err
}

// CancelSequence cancels all waiting tasks of a sequence, step by step, and returns how many.
func CancelSequence(ctx context.Context, s Sequences, typ, name, by string) (total int, err error) {
	if _, err := ShowSequence(ctx, s, typ, name); err != nil {
		return 0, err
	}
	for {
		n, err := s.CancelSequence(ctx, typ, name, by)
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
}
