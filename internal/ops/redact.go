package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Task is a task as people may see it: the members that its type redacts are masked in its documents. Whatever shows tasks takes this type, and a
// store.TaskInfo refuses to become JSON, so that no document gets by unmasked. ReadTask, ListTasks and Wait return it.
type Task store.TaskInfo

// Redactions are the members that are masked, by row type.
type Redactions map[string]Mask

// redactionStore is what is read of them.
type redactionStore interface {
	Redactions(ctx context.Context) (map[string][]string, error)
}

// ReadRedactions reads which members are masked. Call it after what is to be masked was read, so that it knows all that was declared by
// then. Where it fails, no document may be shown.
func ReadRedactions(ctx context.Context, s redactionStore) (Redactions, error) {
	names, err := s.Redactions(ctx)
	if err != nil {
		return nil, fmt.Errorf("documents cannot be shown, because it is not known what to redact: %w", err)
	}
	all := make(Redactions, len(names))
	for typ, list := range names {
		all[typ] = NewMask(list...)
	}
	return all, nil
}

// Task returns the task with its documents masked. i stays as it is.
func (r Redactions) Task(i *store.TaskInfo) *Task {
	shown := *i
	m := r.of(i)
	if !m.Any() {
		return (*Task)(&shown)
	}
	for _, doc := range []*json.RawMessage{
		&shown.Payload, &shown.RollbackPayload, &shown.Result, &shown.Checkpoint, &shown.Progress, &shown.Labels,
	} {
		if i.NotJSON && isText(*doc) {
			*doc = json.RawMessage(maskedText)
			continue
		}
		*doc = m.Document(*doc)
	}
	shown.History = slices.Clone(i.History)
	for n := range shown.History {
		shown.History[n].Result = m.Document(shown.History[n].Result)
	}
	return (*Task)(&shown)
}

// isText reports whether a document is a string, as what is not JSON is shown.
func isText(doc json.RawMessage) bool { return len(doc) > 0 && doc[0] == '"' }

// of returns the mask of a task. One that was inserted for a failure also has what is masked of the task that failed, whose data is in its payload.
func (r Redactions) of(i *store.TaskInfo) Mask {
	m := r[i.Type]
	if i.FailedTask == 0 || len(r) == 0 {
		return m
	}
	var failed struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(i.Payload, &failed) == nil && failed.Type != "" {
		return m.And(r[failed.Type])
	}
	for _, other := range r { // it is not known whose data this is
		m = m.And(other)
	}
	return m
}

// ReadTask returns a task with its history. It names a task that does not exist.
func ReadTask(ctx context.Context, s Store, id task.ID) (*Task, error) {
	info, err := s.Get(ctx, id)
	if err != nil {
		return nil, taskError(id, err)
	}
	masks, err := ReadRedactions(ctx, s)
	if err != nil {
		return nil, err
	}
	return masks.Task(info), nil
}

// ReadForTarget returns a task with its documents as its target gets them, which are not to be shown, and what is to be masked of what is.
func ReadForTarget(ctx context.Context, s Store, id task.ID) (*store.TaskInfo, Redactions, error) {
	info, err := s.Get(ctx, id)
	if err != nil {
		return nil, nil, taskError(id, err)
	}
	masks, err := ReadRedactions(ctx, s)
	return info, masks, err
}

// Mask returns what is masked of a task, and of the tasks for which it has waited, of these types.
func (r Redactions) Mask(i *store.TaskInfo, waitedFor ...string) Mask {
	m := r.of(i)
	for _, typ := range waitedFor {
		m = m.And(r[typ])
	}
	return m
}
