package ops

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Enqueue checks the request and inserts its row, or does with the live one that has the same type and key what the request asks
// for. What is wrong with the request comes back as *InputError.
func Enqueue(ctx context.Context, s Store, r store.EnqueueRequest) (id task.ID, answer store.Enqueued, err error) {
	if err := r.Check(); err != nil {
		return 0, "", err
	}
	return s.Enqueue(ctx, r)
}

// EnqueueOnce is Enqueue for a request that may be a repeat: it inserts no row where one with its type and key is live or has finished,
// as far as retention goes, and returns the newest of these (store.EnqueuedKept). So a client that has lost an answer can ask again.
//
// The look and the insertion are two calls. A repeat that is sent while the first request is still under way finds its row by the key once
// it inserts, unless the task has ended in the moment between the two: then there are two.
func EnqueueOnce(ctx context.Context, s Store, r store.EnqueueRequest) (id task.ID, answer store.Enqueued, err error) {
	if r.Key == "" || r.Live() != store.OnLiveKeep {
		return 0, "", &store.InputError{Text: "a task that is enqueued once has a key, and keeps the one that is there: leave out on_live and debounce"}
	}
	if err := r.Check(); err != nil {
		return 0, "", err
	}
	found, err := s.List(ctx, store.TaskFilter{Type: r.Type, Key: r.Key, Limit: 1})
	if err != nil {
		return 0, "", err
	}
	if len(found) > 0 {
		return found[0].ID, store.EnqueuedKept, nil
	}
	return s.Enqueue(ctx, r)
}

// EnqueueResult is what became of an EnqueueRequest.
type EnqueueResult struct {
	ID  task.ID `json:"id"`
	New bool    `json:"new"` // false: a task with this type and key was there already
	// Answer is what was done: inserted, kept, replaced or follows.
	Answer store.Enqueued `json:"answer"`
}

// ResultOf returns the result of an Enqueue.
func ResultOf(id task.ID, answer store.Enqueued) EnqueueResult {
	return EnqueueResult{id, answer == store.EnqueuedInserted, answer}
}

// TypeStore is what is read to find out which agents take a type.
type TypeStore interface {
	Store
	ListAgents(ctx context.Context, all bool) ([]store.AgentInfo, error)
}

// Untaken returns why no present agent takes tasks of a type now, and until what they wait; "" where one does.
func Untaken(ctx context.Context, s TypeStore, typ string) (reason, until string, err error) {
	paused, err := PauseOf(ctx, s, typ)
	if err != nil {
		return "", "", err
	}
	const declared = "an agent that declares its type is running"
	takers, err := s.Takers(ctx, typ)
	switch {
	case err != nil:
		return "", "", err
	case paused != nil:
		return fmt.Sprintf("the type %q is paused %s", typ, PausedSince(paused)), "it is resumed", nil
	case takers.OfType > 0:
		return "", "", nil
	case takers.Agents == 0:
		return "no agent is running", declared, nil
	}
	reason = fmt.Sprintf("no running agent declares the type %q", typ)
	if agents, err := s.ListAgents(ctx, false); err == nil { // a suggestion is worth no error
		reason += DidYouMean(typ, agents)
	}
	return reason, declared, nil
}

// DidYouMean suggests, in parentheses, the type that is nearest to a name, of those that present agents with workers declare; "" where none is near.
func DidYouMean(typ string, agents []store.AgentInfo) string {
	var declared []string
	for i := range agents {
		if a := &agents[i]; a.Workers > 0 && a.State != store.AgentAbsent && a.State != store.AgentLeft {
			declared = append(declared, a.Types...)
		}
	}
	best := task.Nearest(typ, declared)
	if best == "" || best == typ {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}
