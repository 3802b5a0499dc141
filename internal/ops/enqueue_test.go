package ops

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func TestRequestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		r     store.EnqueueRequest
		wrong string // "": nothing
	}{
		{"least", store.EnqueueRequest{Type: "a"}, ""},
		{"all", store.EnqueueRequest{
			Type: "a", Payload: json.RawMessage(`[1]`), RunAt: time.Unix(1, 0), Priority: -10, Key: "k", Region: "r",
			MaxAttempts: 1000, Labels: map[string]string{"a": ""}, CreatedBy: "me",
		}, ""},
		{"no type", store.EnqueueRequest{}, "a task needs a type"},
		{"type with NUL", store.EnqueueRequest{Type: "a\x00"}, "type \"a\\x00\": text must be UTF-8 without NUL"},
		{"key not UTF-8", store.EnqueueRequest{Type: "a", Key: "\xff"}, "key"},
		{"empty payload", store.EnqueueRequest{Type: "a", Payload: json.RawMessage(" ")}, "the payload is not JSON: it is empty"},
		{"broken payload", store.EnqueueRequest{Type: "a", Payload: json.RawMessage(`{"a":}`)}, "(byte 6)"},
		{"two payloads", store.EnqueueRequest{Type: "a", Payload: json.RawMessage(`1 2`)}, "the payload is not JSON"},
		{"NUL in the payload", store.EnqueueRequest{Type: "a", Payload: json.RawMessage(`{"a":["\u0000"]}`)}, "NUL"},
		{"NUL in a name", store.EnqueueRequest{Type: "a", Payload: json.RawMessage(`{"a\u0000":1}`)}, "NUL"},
		{"no NUL, an escaped backslash", store.EnqueueRequest{Type: "a", Payload: json.RawMessage(`"\\u0000"`)}, ""},
		{"priority too high", store.EnqueueRequest{Type: "a", Priority: 11}, "priority 11: use -10 to 10, higher first"},
		{"priority too low", store.EnqueueRequest{Type: "a", Priority: -11}, "priority -11"},
		{"attempts", store.EnqueueRequest{Type: "a", MaxAttempts: 1001}, "max attempts 1001: use 1 to 1000"},
		{"no attempts", store.EnqueueRequest{Type: "a", MaxAttempts: -1}, "max attempts -1"},
		{"in the past", store.EnqueueRequest{Type: "a", In: -1}, "cannot be due before"},
		{"two due times", store.EnqueueRequest{Type: "a", In: 1, RunAt: time.Unix(1, 0)}, "use one of them"},
		{"a year that is none", store.EnqueueRequest{Type: "a", RunAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "year"},
		{"label without a name", store.EnqueueRequest{Type: "a", Labels: map[string]string{"": "x"}}, "a label needs a name"},
		{"label with NUL", store.EnqueueRequest{Type: "a", Labels: map[string]string{"x": "\x00"}}, `label "x"`},
		{"replace", store.EnqueueRequest{Type: "a", Key: "k", OnLive: store.OnLiveReplace, RunAt: time.Unix(1, 0)}, ""},
		{"debounced", store.EnqueueRequest{Type: "a", Key: "k", Debounce: time.Second, DebounceMax: time.Second}, ""},
		{"unknown on live", store.EnqueueRequest{Type: "a", Key: "k", OnLive: "merge"}, `on live "merge": use keep, replace or again`},
		{"again without a key", store.EnqueueRequest{Type: "a", OnLive: store.OnLiveAgain}, "give it a key"},
		{"again in a batch", store.EnqueueRequest{Type: "a", Key: "k", OnLive: store.OnLiveAgain, Batch: 1}, "leave out the batch"},
		{"debounced for no time", store.EnqueueRequest{Type: "a", Key: "k", Debounce: time.Microsecond}, "use 1ms at least"},
		{"labels too long", store.EnqueueRequest{Type: "a", Labels: map[string]string{"x": strings.Repeat("y", 4096)}}, "at most 4096"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &enqueues{}
			_, _, err := Enqueue(t.Context(), s, c.r)
			if c.wrong == "" {
				require.NoError(t, err)
				require.Equal(t, 1, s.n)
				return
			}
			var input *store.InputError
			require.ErrorAs(t, err, &input)
			require.ErrorContains(t, err, c.wrong)
			require.Zero(t, s.n, "the store is not asked")
		})
	}
}

// enqueues counts what reaches the store.
type enqueues struct {
	Store
	n int
}

func (s *enqueues) Enqueue(context.Context, store.EnqueueRequest) (task.ID, store.Enqueued, error) {
	s.n++
	return 1, store.EnqueuedInserted, nil
}

// takers is a store that knows only who is present.
type takers struct {
	Store
	present store.Takers
	agents  []store.AgentInfo
	paused  []store.TypePause
	err     error
}

func (s takers) Pauses(context.Context) ([]store.TypePause, error) { return s.paused, s.err }

func (s takers) ListAgents(context.Context, bool) ([]store.AgentInfo, error) { return s.agents, s.err }

func (s takers) Takers(context.Context, string) (store.Takers, error) { return s.present, s.err }

func TestUntaken(t *testing.T) {
	for want, there := range map[string]store.Takers{
		"": {Agents: 2, OfType: 1}, "no agent is running": {}, `no running agent declares the type "x"`: {Agents: 2},
	} {
		reason, until, err := Untaken(t.Context(), takers{present: there}, "x")
		require.Equal(t, reason != "", until == "an agent that declares its type is running")
		require.NoError(t, err)
		require.Equal(t, want, reason)
	}
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	reason, until, err := Untaken(t.Context(), takers{present: store.Takers{Agents: 1, OfType: 1}, paused: []store.TypePause{
		{Type: "w", At: at}, {Type: "x", At: at, By: "alice", Reason: "the bank is down"}}}, "x")
	require.NoError(t, err)
	require.Equal(t, `the type "x" is paused since 2026-11-20T08:00:00Z by alice (the bank is down)`, reason)
	require.Equal(t, "it is resumed", until)
	there := takers{present: store.Takers{Agents: 2}, agents: []store.AgentInfo{
		{State: store.AgentWorking, Types: []string{"m.nuns"}}, {State: store.AgentAbsent, Workers: 1, Types: []string{"m.nu"}},
		{State: store.AgentWorking, Workers: 1, Types: []string{"other", "m.run"}},
	}}
	reason, _, err = Untaken(t.Context(), there, "m.nun")
	require.NoError(t, err)
	require.Equal(t, `no running agent declares the type "m.nun" (did you mean "m.run"?)`, reason, "an observer and an absent agent take nothing")
	away := errors.New("connection refused")
	_, _, err = Untaken(t.Context(), takers{err: away}, "x")
	require.ErrorIs(t, err, away)
}
