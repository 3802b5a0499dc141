package web

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of the failures that are looked at.
const (
	mostFailures   = 1000
	mostGroups     = 100
	failuresNewest = 7 * 24 * time.Hour // what has failed before is not counted
)

// failureGroup is how many tasks of a type failed in one way.
type failureGroup struct {
	ops.FailureGroup
	Type        string
	First, Last time.Time
}

// Query is the filter of the change that retries the group.
func (g failureGroup) Query() string {
	return url.Values{"type": {g.Type}, "state": {string(task.StateFailed)}, "error-signature": {g.Signature}}.Encode()
}

// failures shows what failed lately, by type and kind of error.
func (d *Dashboard) failures(r *request) (*view, error) {
	page, err := ops.PageTasks(r.ctx, d.Store, store.TaskFilter{
		States: []task.State{task.StateFailed, task.StateRollbackFailed}, Limit: mostFailures,
	}, listBytes)
	if err != nil {
		return nil, err
	}
	data := struct {
		Now    time.Time
		Groups []failureGroup
		Looked int
		More   bool
	}{Now: r.now, Looked: len(page.Tasks), More: page.Before > 0}
	data.Groups = groupFailures(page.Tasks, r.now)
	return &view{Title: "Failures", Place: "failures", Name: "failures", Data: data, Live: events}, nil
}

// groupFailures groups tasks that failed, the commonest kinds first.
func groupFailures(list []ops.Task, now time.Time) []failureGroup {
	type kind struct{ typ, signature string }
	groups := map[kind]*failureGroup{}
	for i := range list {
		t := &list[i]
		if t.FinishedAt == nil || now.Sub(*t.FinishedAt) > failuresNewest {
			continue
		}
		k := kind{t.Type, ops.NamedSignature(t.Error)}
		g := groups[k]
		if g == nil {
			g = &failureGroup{
				FailureGroup: ops.FailureGroup{Signature: k.signature, Example: t.ID, Error: t.Error}, Type: t.Type, First: *t.FinishedAt,
				Last: *t.FinishedAt,
			}
			groups[k] = g
		}
		g.N++
		if t.FinishedAt.Before(g.First) {
			g.First = *t.FinishedAt
		}
		if t.FinishedAt.After(g.Last) {
			g.Last = *t.FinishedAt
		}
	}
	sorted := make([]failureGroup, 0, len(groups))
	for _, g := range groups {
		sorted = append(sorted, *g)
	}
	slices.SortFunc(sorted, func(a, b failureGroup) int {
		return cmp.Or(cmp.Compare(b.N, a.N), b.Last.Compare(a.Last), cmp.Compare(a.Example, b.Example))
	})
	return sorted[:min(len(sorted), mostGroups)]
}
