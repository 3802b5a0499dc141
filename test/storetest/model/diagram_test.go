package model_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// request is what an operator wants of one task, and which way that takes it.
type request struct {
	from, to task.State
	verb     string
}

// TestDiagramShowsWhatOperatorsCanDo: the diagram shows every step that an operator's request takes a task, and no other.
// (A test in internal/task covers what the code decides.)
func TestDiagramShowsWhatOperatorsCanDo(t *testing.T) {
	drawn, done := drawnRequests(t), requests(t)
	require.NotEmpty(t, drawn)
	require.Empty(t, cmp.Diff(drawn, done, cmp.AllowUnexported(request{})), "- is drawn and cannot happen, + can and is not drawn")
}

// drawnRequests reads the steps that the diagram calls an operator's.
func drawnRequests(t *testing.T) map[request]bool {
	t.Helper()
	page, err := os.ReadFile("../../../docs/architecture.md")
	require.NoError(t, err)
	found := make(map[request]bool)
	for _, m := range regexp.MustCompile(`(?m)^\s+(\S+) --> (\S+): operator: (.+)$`).FindAllStringSubmatch(string(page), -1) {
		for verb := range strings.SplitSeq(m[3], " or ") {
			found[request{task.State(m[1]), task.State(m[2]), verb}] = true
		}
	}
	return found
}

// requests is what becomes of a task in every state, whatever operators want: one that was started or not, and that can be
// rolled back or not.
func requests(t *testing.T) map[request]bool {
	t.Helper()
	found := make(map[request]bool)
	either := []bool{false, true}
	for _, from := range task.States() {
		for verb := range map[string]bool{"cancel": true, "retry": true, "rollback": true} {
			for _, everStarted := range either {
				for _, canBeRolledBack := range either {
					if to := requested(t, from, verb, everStarted, canBeRolledBack); to != from {
						found[request{from, to, verb}] = true
					}
				}
			}
		}
	}
	return found
}

// requested returns the state of a task after the verb was requested in the state from.
func requested(t *testing.T, from task.State, verb string, everStarted, canBeRolledBack bool) task.State {
	t.Helper()
	ctx, s := t.Context(), model.New(time.Now)
	policy := task.Policy{Timeout: time.Minute, Stop: time.Second}
	if canBeRolledBack {
		policy.Rollback = &task.RollbackPolicy{Timeout: time.Minute, Stop: time.Second}
	}
	_, err := s.Join(ctx, store.Agent{Name: "a", Presence: time.Hour, Policies: map[task.PolicyHash]store.NamedPolicy{
		policy.Hash("a"): {Type: "a", Policy: policy},
	}})
	require.NoError(t, err)
	ids, err := s.Insert(ctx, store.EnqueueRequest{Type: "a"})
	require.NoError(t, err)
	s.Tamper(func(live, archive map[task.ID]*model.Row, _ map[task.ID][]model.Attempt) {
		r := live[ids[0]]
		r.State, r.EverStarted, r.Policy, r.Attempt = from, everStarted, policy.Hash("a"), 1
		if from.Finished() {
			delete(live, r.ID)
			archive[r.ID] = r
		}
	})
	requestCancel := map[string]func(context.Context, task.ID, string) (store.Became, error){
		"cancel": s.Cancel, "retry": s.Retry, "rollback": s.Rollback,
	}[verb]
	if _, err := requestCancel(ctx, ids[0], "alice"); err != nil {
		var refused *store.RefusedError
		require.ErrorAs(t, err, &refused)
	}
	info, err := s.Get(ctx, ids[0])
	require.NoError(t, err)
	return info.State
}
