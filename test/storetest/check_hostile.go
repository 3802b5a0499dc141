package storetest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Tasks and producers say what they like. A store that cannot keep it must not be stopped by it: one such row would
// hold up every settlement that travels with it, for ever.
func hostileChecks() []Check {
	return []Check{
		{"whatever a task says, it is settled", hostileOutcome},
		{"whatever a task returns, it is settled", hostileResult},
		{"payloads that not every store can keep", hostilePayload},
		{"texts that are SQL", hostileSQL},
		{"texts of every length", hostileLong},
		{"a context that has ended", hostileContext},
	}
}

// strange are texts that a subprocess may well print.
func strange() []string {
	return []string{
		"before\x00after", "\xff\xfe not UTF-8 \xc3\x28", "\xed\xa0\x80 half a pair", "\ufffd \u2028 \U0010ffff",
		"\x1b[31mred\x1b[0m\r\n\a", "'; DROP TABLE task; --", `{"not":"quoted`, `\x00 \u0000 \`, " ",
	}
}

func hostileOutcome(t testing.TB, h Harness) {
	r := newRig(t, h)
	for _, text := range strange() {
		r.insert(3)
		rows := r.claim(want(kind, 3))
		ended, waits := finish(rows[0]), retry(rows[1], reapFor)
		for _, e := range []*store.Settlement{&ended, &waits} {
			e.Outcome.Error, e.Outcome.Output = text, text
			e.Next.Reason = text
		}
		require.Equal(t, same(store.Applied, 3), r.settle(ended, waits, finish(rows[2])), "%q", text)
		require.NotEmpty(t, r.get(rows[0].ID).Error, "%q: as much as can be is kept", text)
		require.NotEmpty(t, r.get(rows[0].ID).Output, "%q", text)
		require.Len(t, r.get(rows[1].ID).History, 1, "%q", text)
		require.Equal(t, same(store.Ended, 2), r.settle(ended, waits), "%q", text)
	}
}

// awkward are JSON documents that Go takes to be well, and databases may not.
func awkward() []string {
	return []string{
		`"\u0000"`, `{"\u0000":1}`, `"\ud800"`, `"\udc00\ud800"`, `1e999999`, `-1E-999999`,
		strings.Repeat("9", 20000), strings.Repeat("[", 5000) + strings.Repeat("]", 5000), `{"a":1,"a":2}`, ` [ ] `,
	}
}

func hostileResult(t testing.TB, h Harness) {
	r := newRig(t, h)
	for _, result := range awkward() {
		name := result[:min(len(result), 40)]
		r.insert(3)
		rows := r.claim(want(kind, 3))
		ended, waits := finish(rows[0]), retry(rows[1], reapFor)
		ended.Outcome.Result, waits.Outcome.Result = json.RawMessage(result), json.RawMessage(result)
		require.Equal(t, same(store.Applied, 3), r.settle(ended, waits, finish(rows[2])), "%s", name)
		for i, state := range []task.State{task.StateSucceeded, task.StateRetryPending} {
			got := r.get(rows[i].ID)
			require.Equal(t, state, got.State, "%s", name)
			require.True(t, got.Result == nil || json.Valid(got.Result), "%s: a result is JSON: %.80q", name, got.Result)
		}
		require.JSONEq(t, `{"ok":true}`, string(r.get(rows[2].ID).Result), "and of another row in the call")
	}
}

func hostilePayload(t testing.TB, h Harness) {
	r := newRig(t, h)
	for _, payload := range awkward() {
		name := payload[:min(len(payload), 40)]
		id, _, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, Payload: json.RawMessage(payload)})
		if err != nil {
			var input *store.InputError
			require.ErrorAs(t, err, &input, "%s: kept, or an *ops.InputError", name)
			continue
		}
		got := r.claim(want(kind, 2))
		require.Equal(t, []task.ID{id}, ids(got), "%s", name)
		require.True(t, json.Valid(got[0].Payload), "%s: %.80q", name, got[0].Payload)
		r.settled(finish(got[0]))
	}
	r.nothingDue()
}

// nothingDue asserts that there is nothing left to claim.
func (r *rig) nothingDue() {
	r.t.Helper()
	require.Empty(r.t, r.claim(want(kind, 100)))
}

func hostileSQL(t testing.TB, h Harness) {
	r := newRig(t, h)
	for _, text := range []string{"'; DROP TABLE task; --", `"quoted"`, "$1", "%_\\", "{}", "ünïcode ☃", " "} {
		q := store.EnqueueRequest{Type: text, Key: text, Region: text, CreatedBy: text, Labels: map[string]string{text: text}}
		for name, add := range r.ways() {
			got := r.get(add(q))
			require.Equal(t, text, got.Type, name)
			require.Equal(t, text, got.Key, name)
			require.Equal(t, text, got.Region, name)
			require.Equal(t, text, got.CreatedBy, name)
			found := r.list(store.TaskFilter{Type: text, Key: text, Labels: q.Labels})
			require.Equal(t, []task.ID{got.ID}, found, "%s: %q", name, text)
			row := r.claimIn(text, want(text, 2))
			require.Equal(t, []task.ID{got.ID}, ids(row), "%s: %q", name, text)
			r.settled(finish(row[0]))
			r.Advance(t, 2*day)
			r.maintain(day)
			r.Advance(t, day)
			r.maintain(day)
		}
	}
}

func hostileLong(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	end := retry(row, 0)
	end.Outcome.Error = strings.Repeat("e", task.MaxError)
	end.Outcome.Output = strings.Repeat("o", 2*task.MaxOutputPart)
	end.Outcome.Result = json.RawMessage(`"` + strings.Repeat("r", task.MaxResult-2) + `"`)
	r.settled(end)
	got := r.get(row.ID)
	require.Equal(t, end.Outcome.Error, got.Error)
	require.Equal(t, string(end.Outcome.Result), string(got.Result))
	require.Len(t, got.History, 1)
	require.Equal(t, end.Outcome.Output, got.History[0].Output)
	require.Equal(t, end.Outcome.Error, r.claim(want(kind, 1))[0].Previous.Error)
}

func hostileContext(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	waits := r.insert(1)
	ended, cancel := context.WithCancel(r.ctx)
	cancel()
	r.unchanged(row.ID, func() {
		_, err := r.Claim(ended, store.Claim{Session: r.session, Number: 99, Wants: []store.Want{want(kind, 1)}})
		require.ErrorIs(t, err, context.Canceled)
		_, err = r.Settle(ended, r.session, []store.Settlement{finish(row)})
		require.ErrorIs(t, err, context.Canceled)
		_, err = r.Renew(ended, r.session, []store.Renewal{{ID: row.ID, Fence: row.Fence, Window: 3 * window}})
		require.ErrorIs(t, err, context.Canceled)
		_, err = r.Sweep(ended, r.session, 10, reapFor, r.view())
		require.ErrorIs(t, err, context.Canceled)
		_, err = r.Present(ended, store.Heartbeat{Session: r.session, Agent: agent(r.name)})
		require.ErrorIs(t, err, context.Canceled)
		_, _, err = r.Enqueue(ended, store.EnqueueRequest{Type: kind})
		require.ErrorIs(t, err, context.Canceled)
	})
	require.Equal(t, waits, ids(r.claim(want(kind, 10))), "and the store goes on")
	r.settled(finish(row))
}
