package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// verbs is a store that answers each verb as it answers a cancellation, with the verb before it.
type verbs struct {
	cancels
	asked  *[]string
	before map[task.ID]task.State
	lost   *error // nil, or what Get fails with
}

func (v verbs) verb(ctx context.Context, name string, id task.ID, by string) (store.Became, error) {
	*v.asked = append(*v.asked, fmt.Sprintf("%s %d by %s", name, id, by))
	return v.Cancel(ctx, id, by)
}

func (v verbs) Get(_ context.Context, id task.ID) (*store.TaskInfo, error) {
	if v.lost != nil && *v.lost != nil {
		return nil, *v.lost
	}
	if s, ok := v.before[id]; ok {
		return &store.TaskInfo{ID: id, State: s, Type: "card.charge"}, nil
	}
	return nil, store.ErrNoTask
}

func (v verbs) Retry(ctx context.Context, id task.ID, by string) (store.Became, error) {
	return v.verb(ctx, "retry", id, by)
}

func (v verbs) RetryWith(ctx context.Context, id task.ID, payload json.RawMessage, by string) (store.Became, error) {
	return v.verb(ctx, strings.TrimSpace("retry "+string(payload)), id, by)
}

func (v verbs) Redactions(context.Context) (map[string][]string, error) {
	return map[string][]string{"card.charge": {"card"}}, nil
}

func (v verbs) Rollback(ctx context.Context, id task.ID, by string) (store.Became, error) {
	return v.verb(ctx, "rollback", id, by)
}

func TestWhatIsRefusedKeepsNoneOfTheOthers(t *testing.T) {
	busy := fmt.Errorf("retry task: %w", &store.RefusedError{Text: `task 4212 is live with the key "invoice-7": wait for it or cancel it`})
	dead := errors.New("connection refused")
	for _, verb := range []Verb{VerbRetry, VerbRollback} {
		name := string(verb)
		var asked []string
		s := verbs{cancels{1: busy, 3: store.Became("pending"), 4: dead}, &asked, nil, nil}
		got, err := ChangeTasks(t.Context(), s, []task.ID{1, 2, 3, 4, 3}, TaskChange{Verb: verb, By: "alice"})
		require.ErrorIs(t, err, dead)
		require.ErrorContains(t, err, "task 4")
		require.Equal(t, []Report{
			{ID: 1, Error: `task 4212 is live with the key "invoice-7": wait for it or cancel it`},
			{ID: 2, Error: "no such task", Missing: true}, {ID: 3, Became: "pending"},
		}, got)
		require.Equal(t, []string{name + " 1 by alice", name + " 2 by alice", name + " 3 by alice", name + " 4 by alice"}, asked)
		_, err = ChangeTasks(t.Context(), s, []task.ID{3}, TaskChange{Verb: verb, By: strings.Repeat("x", store.MaxBy+1)})
		require.ErrorAs(t, err, new(*store.InputError))
		require.Len(t, asked, 4, "nothing was asked for")
		_, err = ChangeTasks(t.Context(), s, []task.ID{3}, TaskChange{Verb: "explode"})
		require.ErrorAs(t, err, new(*store.InputError))
	}
}

func TestReportsOfWhatWasSoBefore(t *testing.T) {
	s := verbs{cancels: cancels{1: store.Cancelling, 2: store.Became(task.StateSucceeded), 3: &store.RefusedError{Text: "no"}, 4: store.Became(task.StateCancelled)},
		before: map[task.ID]task.State{1: task.StateRunning, 2: task.StateSucceeded, 3: task.StateSucceeded}}
	for _, before := range []bool{false, true} {
		got, err := ChangeTasks(t.Context(), s, []task.ID{1, 2, 3, 4, 5}, TaskChange{Verb: VerbCancel, Before: before})
		require.NoError(t, err)
		var unchanged []task.ID
		for _, r := range got {
			if r.Unchanged() {
				unchanged = append(unchanged, r.ID)
			}
			if !before {
				require.Empty(t, r.Before)
			}
		}
		if before {
			require.Equal(t, []task.ID{2}, unchanged)
		} else {
			require.Empty(t, unchanged)
		}
	}
}

func TestReportsError(t *testing.T) {
	well, gone := Report{ID: 1, Became: "pending"}, Report{ID: 2, Error: "no such task", Missing: true}
	refused := Report{ID: 3, Error: "the type \"a\" has no rollback"}
	require.NoError(t, ReportsError([]Report{well, well}))
	require.EqualError(t, ReportsError([]Report{well, gone}), "task 2: no such task (or its retention is over)")
	require.EqualError(t, ReportsError([]Report{gone, gone}), "2 of 2 tasks do not exist (or their retention is over)")
	require.EqualError(t, ReportsError([]Report{well, refused}), `task 3: the type "a" has no rollback`)
	require.EqualError(t, ReportsError([]Report{refused, refused, well}), "2 of 3 tasks were not changed")
	require.EqualError(t, ReportsError([]Report{refused, gone, well}), "1 of 3 tasks were not changed, and 1 do not exist")
}

func TestBatchRequestCheck(t *testing.T) {
	good := store.BatchRequest{
		Name: "move to az2", OnFailure: store.OnFailureRollback, FinishType: "moved", FinishPayload: json.RawMessage(` {"a": 1}`),
		Labels: map[string]string{"team": "infra"}, CreatedBy: "alice", Open: true,
	}
	require.NoError(t, good.Check())
	require.NoError(t, new(store.BatchRequest).Check())
	for want, change := range map[string]func(*store.BatchRequest){
		"name is 256 bytes long: 255 at most":      func(b *store.BatchRequest) { b.Name = strings.Repeat("x", 256) },
		`name "a\x00": text must be UTF-8`:         func(b *store.BatchRequest) { b.Name = "a\x00" },
		"finish type is 256 bytes long":            func(b *store.BatchRequest) { b.FinishType = strings.Repeat("x", 256) },
		"created_by is 513 bytes long":             func(b *store.BatchRequest) { b.CreatedBy = strings.Repeat("x", 513) },
		`on_failure "explode": use continue`:       func(b *store.BatchRequest) { b.OnFailure = "explode" },
		"the finish payload is not JSON":           func(b *store.BatchRequest) { b.FinishPayload = json.RawMessage("{") },
		"the finish payload must be a JSON object": func(b *store.BatchRequest) { b.FinishPayload = json.RawMessage("[1]") },
		"the finish payload has a NUL":             func(b *store.BatchRequest) { b.FinishPayload = json.RawMessage(`{"a":"\u0000"}`) },
		"a finish payload without a finish type":   func(b *store.BatchRequest) { b.FinishType = "" },
		"the labels are":                           func(b *store.BatchRequest) { b.Labels = map[string]string{"a": strings.Repeat("x", store.MaxLabels)} },
		"a label needs a name: use name=value":     func(b *store.BatchRequest) { b.Labels = map[string]string{"": "x"} },
		`label "team": text must be UTF-8 without`: func(b *store.BatchRequest) { b.Labels = map[string]string{"team": "\xff"} },
	} {
		bad := good
		change(&bad)
		err := bad.Check()
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(*store.InputError))
	}
}

func TestAPayloadThatWasMaskedIsNoPayload(t *testing.T) {
	var asked []string
	var lost error
	s := verbs{cancels{1: store.Became("pending")}, &asked, map[task.ID]task.State{1: task.StateFailed}, &lost}
	retried := func(payload string) ([]Report, error) {
		return ChangeTasks(t.Context(), s, []task.ID{1}, TaskChange{Verb: VerbRetry, By: "alice", Payload: json.RawMessage(payload)})
	}
	got, err := retried(`{"card": "(redacted)", "amount": 9}`)
	require.NoError(t, err)
	require.Contains(t, got[0].Error, `give their values`)
	require.Empty(t, asked)
	_, err = retried(`{"card": `)
	require.ErrorAs(t, err, new(*store.InputError))
	require.Empty(t, asked)
	got, err = retried(`{"card": "4111", "amount": 9}`)
	require.NoError(t, err)
	require.Empty(t, got[0].Error)
	require.Equal(t, []string{`retry {"card": "4111", "amount": 9} 1 by alice`}, asked)

	lost = errors.New("connection refused") // so the type is not known
	_, err = retried(`{"card": "(redacted)", "amount": 9}`)
	require.ErrorIs(t, err, lost)
	lost = store.ErrNoTask
	got, err = retried(`{"card": "(redacted)", "amount": 9}`)
	require.NoError(t, err)
	require.True(t, got[0].Missing)
	require.Len(t, asked, 1)
}
