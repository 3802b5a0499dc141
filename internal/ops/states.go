package ops

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ParseStates reads names of states of tasks, each once. A name that is none is an *InputError, which lists them.
func ParseStates(names []string) ([]task.State, error) { return parseStates(names, task.States()) }

// ParseBatchStates reads names of states of batches, each once. A name that is none is an *InputError, which lists them.
func ParseBatchStates(names []string) ([]store.BatchState, error) {
	return parseStates(names, store.BatchStates())
}

func parseStates[S ~string](names []string, known []S) ([]S, error) {
	var states []S
	for _, name := range names {
		s := S(name)
		if !slices.Contains(known, s) {
			all := make([]string, 0, len(known))
			for _, k := range known {
				all = append(all, string(k))
			}
			return nil, &store.InputError{Text: fmt.Sprintf("%s: there is no such state: use %s", name, strings.Join(all, ", "))}
		}
		if !slices.Contains(states, s) {
			states = append(states, s)
		}
	}
	return states, nil
}

// Tone is what a state says of how well it goes, for those who show states in colour.
type Tone int

// The tones.
const (
	UnderWay Tone = iota
	Good          // succeeded, or rolled back
	Bad           // any other end
)

// ToneOf returns the tone of a task's state. What was split goes on as its halves.
func ToneOf(s task.State) Tone {
	switch {
	case s == task.StateSplit:
		return UnderWay
	case s == task.StateSucceeded || s == task.StateRolledBack:
		return Good
	case s.Finished():
		return Bad
	}
	return UnderWay
}

// BatchTone returns the tone of a batch's state. Another answer of a verb, as retrying, is under way.
func BatchTone(s store.BatchState) Tone {
	switch {
	case s == store.BatchSucceeded || s == store.BatchRolledBack:
		return Good
	case s.Ended() && slices.Contains(store.BatchStates(), s):
		return Bad
	}
	return UnderWay
}
