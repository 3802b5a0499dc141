package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// verbs is a store that answers each verb as it answers a cancellation, with the verb before it.
type verbs struct {
	cancels
	asked *[]string
}

func (v verbs) verb(ctx context.Context, name string, id task.ID, by string) (Became, error) {
	*v.asked = append(*v.asked, fmt.Sprintf("%s %d by %s", name, id, by))
	return v.Cancel(ctx, id, by)
}

func (v verbs) Retry(ctx context.Context, id task.ID, by string) (Became, error) {
	return v.verb(ctx, "retry", id, by)
}

func (v verbs) Rollback(ctx context.Context, id task.ID, by string) (Became, error) {
	return v.verb(ctx, "rollback", id, by)
}

func TestWhatIsRefusedKeepsNoneOfTheOthers(t *testing.T) {
	busy := fmt.Errorf("retry task: %w", &RefusedError{Text: `task 4212 is live with the key "invoice-7": wait for it or cancel it`})
	dead := errors.New("connection refused")
	for name, all := range map[string]func(context.Context, Operator, []task.ID, string) ([]Report, error){
		"retry": RetryAll, "rollback": RollbackAll,
	} {
		var asked []string
		s := verbs{cancels{1: busy, 3: Became("pending"), 4: dead}, &asked}
		got, err := all(t.Context(), s, []task.ID{1, 2, 3, 4, 3}, "alice")
		require.ErrorIs(t, err, dead)
		require.ErrorContains(t, err, "task 4")
		require.Equal(t, []Report{
			{ID: 1, Error: `task 4212 is live with the key "invoice-7": wait for it or cancel it`},
			{ID: 2, Error: "no such task", Missing: true}, {ID: 3, Became: "pending"},
		}, got)
		require.Equal(t, []string{name + " 1 by alice", name + " 2 by alice", name + " 3 by alice", name + " 4 by alice"}, asked)
		_, err = all(t.Context(), s, []task.ID{3}, strings.Repeat("x", MaxBy+1))
		require.ErrorAs(t, err, new(*InputError))
		require.Len(t, asked, 4, "nothing was asked for")
	}
}

func TestBatchRequestCheck(t *testing.T) {
	good := BatchRequest{
		Name: "move to az2", OnFailure: OnFailureRollback, FinishType: "moved", FinishPayload: json.RawMessage(` {"a": 1}`),
		Labels: map[string]string{"team": "infra"}, CreatedBy: "alice", Open: true,
	}
	require.NoError(t, good.Check())
	require.NoError(t, new(BatchRequest).Check())
	for want, change := range map[string]func(*BatchRequest){
		"name is 256 bytes long: 255 at most":      func(b *BatchRequest) { b.Name = strings.Repeat("x", 256) },
		`name "a\x00": text must be UTF-8`:         func(b *BatchRequest) { b.Name = "a\x00" },
		"finish type is 256 bytes long":            func(b *BatchRequest) { b.FinishType = strings.Repeat("x", 256) },
		"created_by is 513 bytes long":             func(b *BatchRequest) { b.CreatedBy = strings.Repeat("x", 513) },
		`on_failure "explode": use continue`:       func(b *BatchRequest) { b.OnFailure = "explode" },
		"the finish payload is not JSON":           func(b *BatchRequest) { b.FinishPayload = json.RawMessage("{") },
		"the finish payload is no JSON object":     func(b *BatchRequest) { b.FinishPayload = json.RawMessage("[1]") },
		"the finish payload has a NUL":             func(b *BatchRequest) { b.FinishPayload = json.RawMessage(`{"a":"\u0000"}`) },
		"a finish payload without a finish type":   func(b *BatchRequest) { b.FinishType = "" },
		"the labels are":                           func(b *BatchRequest) { b.Labels = map[string]string{"a": strings.Repeat("x", MaxLabels)} },
		"a label needs a name: use name=value":     func(b *BatchRequest) { b.Labels = map[string]string{"": "x"} },
		`label "team": text must be UTF-8 without`: func(b *BatchRequest) { b.Labels = map[string]string{"team": "\xff"} },
	} {
		bad := good
		change(&bad)
		err := bad.Check()
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(*InputError))
	}
}
