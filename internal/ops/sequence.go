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
		return d, sequenceError(typ, name, store.ErrNoSequence)
	}
	d.SequenceInfo = all.List[0]
	d.Next, err = s.SequenceRows(ctx, typ, name, shownRows)
	return d, err
}

// SequenceChanged is what became of a sequence that was to be changed.
type SequenceChanged struct {
	Type     string  `json:"type"`
	Sequence string  `json:"sequence"`
	Task     task.ID `json:"task_id,omitempty"`
	Became   string  `json:"became"`
	Tasks    int     `json:"tasks,omitempty"` // that were cancelled
}

// ResolveSequence resolves the failure that blocks a sequence: with retry its task runs again, else it stays and the tasks behind it
// run. With an id it does so only if that task is the one. It names a sequence that does not exist.
func ResolveSequence(ctx context.Context, s Sequences, typ, name string, id task.ID, retry bool, by string) (c SequenceChanged, err error) {
	c = SequenceChanged{Type: typ, Sequence: name, Became: "skipped"}
	if err := checkBy(by); err != nil {
		return c, err
	}
	if retry {
		c.Became = string(task.StatePending)
		c.Task, err = s.RetrySequence(ctx, typ, name, id, by)
	} else {
		c.Task, err = s.SkipSequence(ctx, typ, name, id, by)
	}
	return c, sequenceError(typ, name, err)
}

// sequenceError names a sequence that does not exist.
func sequenceError(typ, name string, err error) error {
	if errors.Is(err, store.ErrNoSequence) {
		return fmt.Errorf("sequence %q of type %q: %w: `leasehold sequence list` shows those that exist", name, typ, store.ErrNoSequence)
	}
	return err
}

// CancelSequence cancels all waiting tasks of a sequence, step by step. Where it fails, what it returns was done before.
func CancelSequence(ctx context.Context, s Sequences, typ, name, by string) (SequenceChanged, error) {
	c := SequenceChanged{Type: typ, Sequence: name, Became: "cancelled"}
	if err := checkBy(by); err != nil {
		return c, err
	}
	if _, err := ShowSequence(ctx, s, typ, name); err != nil {
		return c, err
	}
	for {
		n, err := s.CancelSequence(ctx, typ, name, by)
		c.Tasks += n
		if err != nil || n == 0 {
			return c, err
		}
	}
}
