package web

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// taskView is one task.
type taskView struct {
	Now     time.Time
	Task    *ops.Task
	Row     taskRow
	Why     *ops.Explanation
	History []ops.Attempt
	Line    timeline
	Facts   []field
	Docs    []document
	Verbs   []verb
	Said    string
}

// document is a document of a task.
type document struct{ Name, Text string }

// verb is something that can be asked of a task, a batch, or what else has verbs.
type verb struct {
	Name, Label, Help string // no name: it cannot be asked for, and Help says why
	Bad               bool   // it ends something
}

// barRollback makes a rollback among verbs one that cannot be asked for.
func barRollback(verbs []verb, why string) {
	for i := range verbs {
		if verbs[i].Name == string(ops.VerbRollback) {
			verbs[i].Name, verbs[i].Help = "", why
		}
	}
}

// taskPage shows one task.
func (d *Dashboard) taskPage(r *request) (*view, error) {
	id, err := r.number("task")
	if err != nil {
		return nil, err
	}
	t, err := ops.ReadTask(r.ctx, d.Store, task.ID(id))
	if err != nil {
		return nil, err
	}
	why, err := ops.Explain(r.ctx, d.Store, t.ID)
	if err != nil {
		return nil, err
	}
	verbs := taskVerbs(t.State)
	can, err := d.Store.CanRollBack(r.ctx, t.Type, t.ID)
	if err != nil {
		return nil, err
	}
	if !can {
		barRollback(verbs, "its type declares no rollback")
	}
	v := &taskView{
		Now: r.now, Task: t, Row: rowOf(t, r.now), Why: why, History: ops.History(t), Line: timelineOf(t, r.now), Facts: facts(t), Docs: documents(t),
		Verbs: verbs, Said: r.said(),
	}
	live := fmt.Sprintf("/api/v1/tasks/%d/events", t.ID)
	if t.State.Finished() {
		live = ""
	}
	return &view{Title: fmt.Sprintf("Task %d", t.ID), Place: "tasks", Name: "task", Data: v, Live: live}, nil
}

// taskVerbs are what can be asked of a task in a state.
func taskVerbs(s task.State) []verb {
	cancel := verb{"cancel", "Cancel", "What waits never starts. What runs is asked to stop.", true}
	retry := verb{"retry", "Retry", "It waits again, with all its attempts.", false}
	rollback := verb{"rollback", "Roll back", "Its rollback runs, if its type has one. What runs is stopped first.", true}
	switch s {
	case task.StatePending, task.StateRetryPending, task.StateRunning:
		return []verb{cancel, rollback}
	case task.StateFailed, task.StateCancelled:
		return []verb{retry, rollback}
	case task.StateRolledBack:
		return []verb{retry}
	case task.StateSucceeded, task.StateRollbackFailed:
		return []verb{rollback}
	default:
		return nil
	}
}

// facts are what is known of a task, but for its documents.
func facts(t *ops.Task) []field {
	const most = 300
	var list []field
	add := func(name, value string) {
		if value != "" {
			list = append(list, field{name, value})
		}
	}
	number := func(name string, n int64) {
		if n != 0 {
			add(name, fmt.Sprint(n))
		}
	}
	add("attempt", ops.Attempts(t))
	number("priority", int64(t.Priority))
	add("key", ops.OneLine(t.Key, most))
	add("region", ops.Region(t, most))
	add("tenant", ops.OneLine(t.Tenant, most))
	add("lock", ops.Lock(t, most))
	add("sequence", ops.Sequence(t, most))
	add("agent", ops.OneLine(t.Agent, most))
	number("fence", int64(t.Fence))
	add("lease until", ops.Lease(t))
	add("created", ops.Time(t.CreatedAt))
	add("due", ops.Time(t.RunAt))
	if t.ClaimedAt != nil {
		add("claimed", ops.Time(*t.ClaimedAt))
	}
	if t.FinishedAt != nil {
		add("finished", ops.Time(*t.FinishedAt))
	}
	if t.Deadline != nil {
		add("deadline", ops.Time(*t.Deadline))
	}
	add("cancel requested", ops.CancelRequest(t))
	add("inserted", ops.InsertedFor(t))
	add("created by", ops.OneLine(t.CreatedBy, most))
	number("deferrals", int64(t.Deferrals))
	number("retried by operators", int64(t.Round))
	add("trace", ops.OneLine(t.Traceparent, most))
	return list
}

// documents are a task's, those that it has.
func documents(t *ops.Task) []document {
	var list []document
	for _, doc := range []struct {
		name string
		text []byte
	}{
		{"Payload", t.Payload}, {"Rollback payload", t.RollbackPayload}, {"Checkpoint", t.Checkpoint}, {"Result", t.Result}, {"Labels", t.Labels},
	} {
		if len(doc.text) > 0 && string(doc.text) != "{}" || doc.name == "Payload" {
			list = append(list, document{doc.name, cut(pretty(doc.text))})
		}
	}
	return list
}

// mostShown bounds what a page has of a document, in bytes.
const mostShown = 64 << 10

// cut is the beginning of a long document, and how much is left out.
func cut(text string) string {
	if len(text) <= mostShown {
		return text
	}
	return fmt.Sprintf("%s\n… %s bytes more: `leasehold task show` has all of it",
		strings.ToValidUTF8(text[:mostShown], ""), ops.Thousands(int64(len(text)-mostShown)))
}

// changeTask changes one task.
func (d *Dashboard) changeTask(_ http.ResponseWriter, r *request) (string, error) {
	n, err := r.number("task")
	if err != nil {
		return "", err
	}
	id := task.ID(n)
	reports, err := ops.ChangeTasks(r.ctx, d.Store, []task.ID{id}, ops.TaskChange{
		Verb: ops.Verb(r.PathValue("verb")), By: r.by(), Before: true,
	})
	if err != nil {
		return "", err
	}
	switch one := reports[0]; {
	case one.Missing:
		return "", fmt.Errorf("task %d: %w", id, store.ErrNoTask)
	case one.Error != "":
		return "", &store.RefusedError{Text: one.Error}
	case one.Unchanged():
		return fmt.Sprintf("/tasks/%d?said=unchanged", id), nil
	default:
		return fmt.Sprintf("/tasks/%d?said=%s", id, one.Became), nil
	}
}
