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
