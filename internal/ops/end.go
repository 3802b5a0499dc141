package ops

import (
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// End is what became of work that was waited for.
type End int

// The ends, from the best to the worst.
const (
	EndSucceeded End = iota // all of it
	EndCancelled            // nothing failed, and some was cancelled
	EndFailed               // some failed, or was rolled back
)

// EndOf returns what became of tasks that have all finished: a failure outweighs a cancellation.
func EndOf(infos []*Task) End {
	end := EndSucceeded
	for _, i := range infos {
		switch i.State {
		case task.StateSucceeded:
		case task.StateCancelled:
			end = max(end, EndCancelled)
		default:
			end = EndFailed
		}
	}
	return end
}

// EndOfBatch returns what became of a batch that has ended in this state.
func EndOfBatch(s store.BatchState) End {
	switch s {
	case store.BatchSucceeded:
		return EndSucceeded
	case store.BatchCancelled:
		return EndCancelled
	}
	return EndFailed
}

// Unfinished returns which of the tasks have not finished, given what a Wait returned for them.
func Unfinished(ids []task.ID, infos []*Task) []task.ID {
	var left []task.ID
	for n, id := range ids {
		if infos[n] == nil || !infos[n].State.Finished() {
			left = append(left, id)
		}
	}
	return left
}
