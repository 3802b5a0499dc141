package ops

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestRequestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		r     Request
		wrong string // "": nothing
	}{
		{"least", Request{Type: "a"}, ""},
		{"all", Request{
			Type: "a", Payload: json.RawMessage(`[1]`), RunAt: time.Unix(1, 0), Priority: -10, Key: "k", Region: "r",
			MaxAttempts: 1000, Labels: map[string]string{"a": ""}, CreatedBy: "me",
		}, ""},
		{"no type", Request{}, "a task needs a type"},
		{"type with NUL", Request{Type: "a\x00"}, "type \"a\\x00\": text must be UTF-8 without NUL"},
		{"key not UTF-8", Request{Type: "a", Key: "\xff"}, "key"},
		{"empty payload", Request{Type: "a", Payload: json.RawMessage(" ")}, "the payload is not JSON: it is empty"},
		{"broken payload", Request{Type: "a", Payload: json.RawMessage(`{"a":}`)}, "(byte 6)"},
		{"two payloads", Request{Type: "a", Payload: json.RawMessage(`1 2`)}, "the payload is not JSON"},
		{"NUL in the payload", Request{Type: "a", Payload: json.RawMessage(`{"a":["\u0000"]}`)}, "NUL"},
		{"NUL in a name", Request{Type: "a", Payload: json.RawMessage(`{"a\u0000":1}`)}, "NUL"},
		{"no NUL, an escaped backslash", Request{Type: "a", Payload: json.RawMessage(`"\\u0000"`)}, ""},
		{"priority too high", Request{Type: "a", Priority: 11}, "priority 11: use -10 to 10, higher first"},
		{"priority too low", Request{Type: "a", Priority: -11}, "priority -11"},
		{"attempts", Request{Type: "a", MaxAttempts: 1001}, "max attempts 1001: use 1 to 1000"},
		{"no attempts", Request{Type: "a", MaxAttempts: -1}, "max attempts -1"},
		{"in the past", Request{Type: "a", In: -1}, "cannot be due before"},
		{"two due times", Request{Type: "a", In: 1, RunAt: time.Unix(1, 0)}, "use one of them"},
		{"a year that is none", Request{Type: "a", RunAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "year"},
		{"label without a name", Request{Type: "a", Labels: map[string]string{"": "x"}}, "a label needs a name"},
		{"label with NUL", Request{Type: "a", Labels: map[string]string{"x": "\x00"}}, `label "x"`},
		{"labels too long", Request{Type: "a", Labels: map[string]string{"x": strings.Repeat("y", 4096)}}, "at most 4096"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &enqueues{}
			_, _, err := Enqueue(t.Context(), s, c.r)
			if c.wrong == "" {
				require.NoError(t, err)
				require.Equal(t, 1, s.n)
				return
			}
			var input *InputError
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

func (s *enqueues) Enqueue(context.Context, Request) (task.ID, bool, error) {
	s.n++
	return 1, true, nil
}

// takers is a store that knows only who is present.
type takers struct {
	Store
	present Takers
	err     error
}

func (s takers) Takers(context.Context, string) (Takers, error) { return s.present, s.err }

func TestUntaken(t *testing.T) {
	for want, there := range map[string]Takers{
		"": {Agents: 2, OfType: 1}, "no agent is running": {}, `no agent that runs now declares the type "x"`: {Agents: 2},
	} {
		why, err := Untaken(t.Context(), takers{present: there}, "x")
		require.NoError(t, err)
		require.Equal(t, want, why)
	}
	away := errors.New("connection refused")
	_, err := Untaken(t.Context(), takers{err: away}, "x")
	require.ErrorIs(t, err, away)
}
