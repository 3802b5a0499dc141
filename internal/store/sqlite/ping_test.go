package sqlite

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// beating is a policy with a heartbeat, and a rollback with another.
func beating(change func(*task.Policy)) task.Policy {
	p := task.Policy{
		Timeout: 2 * time.Hour, Heartbeat: 10 * time.Minute, MaxHeartbeat: 30 * time.Minute, Stop: 2 * time.Minute,
		Check: 3 * time.Minute, Retry: task.Retry{Limit: 2},
		Rollback: &task.RollbackPolicy{
			Timeout: time.Hour, Heartbeat: 20 * time.Minute, MaxHeartbeat: 25 * time.Minute, Stop: 4 * time.Minute,
			RequireProgress: true,
		},
	}
	if change != nil {
		change(&p)
	}
	return p
}

// session joins with those policies.
func (h *harness) session(t testing.TB, policies ...task.Policy) task.Session {
	t.Helper()
	a := store.Agent{Name: "a", Presence: time.Hour, Policies: map[task.PolicyHash]store.NamedPolicy{}}
	for _, p := range policies {
		a.Policies[p.Hash("a")] = store.NamedPolicy{Type: "x", Policy: p}
	}
	s, err := h.Join(t.Context(), a)
	require.NoError(t, err)
	return s
}

// held inserts n rows and claims them under the policy, in a run, or in a rollback after one.
func (h *harness) held(t testing.TB, s task.Session, p task.Policy, phase task.Phase, n int, deadline time.Duration) []task.Task {
	t.Helper()
	for range n {
		h.Insert(t, store.EnqueueRequest{Type: "x"})
	}
	claim := func(phase task.Phase) []task.Task {
		got, err := h.Claim(t.Context(), store.Claim{Session: s, Number: 1, Wants: []store.Want{
			{Type: "x", Phase: phase, N: n, Window: p.Window(phase), Policy: p.Hash("a"), Deadline: deadline},
		}})
		require.NoError(t, err)
		require.Len(t, got, n)
		return got
	}
	rows := claim(task.Run)
	if phase == task.Run {
		return rows
	}
	ends := make([]store.Settlement, n)
	for i, row := range rows {
		ends[i] = released(row)
		ends[i].Silent, ends[i].Next = false, task.Transition{State: task.StateRollbackPending, EverStarted: true}
	}
	_, err := h.Settle(t.Context(), s, ends)
	require.NoError(t, err)
	return claim(task.Rollback)
}

// marks is all that a ping may change of a row.
type marks struct {
	progress, message, checkpoint string
	due, until                    time.Time
}

func (h *harness) marks(t testing.TB, id task.ID) (m marks) {
	t.Helper()
	require.NoError(t, h.app.QueryRowContext(t.Context(), `SELECT ifnull(progress, ''), ifnull(message, ''), ifnull(checkpoint, ''),
		ping_due, lease_until FROM task WHERE id = ?`, int64(id)).Scan(
		&m.progress, &m.message, &m.checkpoint, timeOf{&m.due}, timeOf{&m.until}))
	return m
}

// The view and the call must not drift apart: both change a row in the same way and return the same reply.
func TestPingsByTheViewAndByTheCallAreTheSame(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	policies := map[string]task.Policy{
		"beating":           beating(nil),
		"progress required": beating(func(p *task.Policy) { p.RequireProgress = true }),
		"no heartbeat":      beating(func(p *task.Policy) { p.Heartbeat, p.MaxHeartbeat, p.Check = 0, 0, 0 }),
		"no longer window":  beating(func(p *task.Policy) { p.MaxHeartbeat = 0 }),
		"one way":           beating(func(p *task.Policy) { p.Rollback = nil }),
		"to the ms":         beating(func(p *task.Policy) { p.Heartbeat += 1234567 * time.Microsecond }),
		"ten years": beating(func(p *task.Policy) {
			p.Timeout, p.Heartbeat, p.MaxHeartbeat = 3650*24*time.Hour, 3650*24*time.Hour, 3650*24*time.Hour
		}),
	}
	all := make([]task.Policy, 0, len(policies))
	for _, p := range policies {
		all = append(all, p)
	}
	s := h.session(t, all...)
	unknown := beating(func(p *task.Policy) { p.Stop = time.Hour })
	policies["that the store does not have"] = unknown
	for name, p := range policies {
		for _, phase := range []task.Phase{task.Run, task.Rollback} {
			for _, deadline := range []time.Duration{0, 20 * time.Minute} {
				if deadline > 0 && name != "beating" && name != "that the store does not have" {
					continue
				}
				rows := h.held(t, s, p, phase, 2, deadline)
				_, strict, _ := p.Liveness(phase)
				for i, ping := range pingHistory() {
					if strict { // what the view cannot compare, it does not count
						ping.Checkpoint = nil
						if len(ping.Progress) > 0 && ping.Progress[0] == '"' {
							ping.Progress = nil
						}
					}
					name := fmt.Sprintf("%s, %s, deadline %s, ping %d", name, phase, deadline, i)
					if i == 6 {
						_, err := h.Cancel(t.Context(), rows[0].ID, "alice")
						require.NoError(t, err)
						require.NoError(t, h.exec(t, "INSERT INTO cancel (id, by) VALUES (?, 'alice')", int64(rows[1].ID)))
					}
					h.samePing(t, rows, ping, name)
					if i%3 == 2 && p.Heartbeat < time.Hour {
						h.Advance(t, 3*time.Minute)
					}
				}
				_, err := h.Settle(t.Context(), s, []store.Settlement{succeeded(rows[0]), succeeded(rows[1])})
				require.NoError(t, err)
			}
		}
	}
}

// pingHistory is a task's pings one after the other.
func pingHistory() []store.Ping {
	doc := func(s string) json.RawMessage { return json.RawMessage(s) }
	return []store.Ping{
		{},
		{Message: "begun"},
		{Progress: doc(`0.4`)},
		{Progress: doc(`0.4`), NextWithin: 15 * time.Minute},
		{Progress: doc(`{"done":40,"total":100}`), NextWithin: 5 * time.Second},
		{Checkpoint: doc(`{"page":40}`), NextWithin: time.Hour},
		{Checkpoint: doc(`{"page":40}`), Message: "page 40"},
		{Progress: doc(`"page 41"`), Checkpoint: doc(`[41,"x",null]`), NextWithin: 1e6 * time.Hour},
		{Progress: doc(`"page 41"`), Checkpoint: doc(`[41,"x",null]`)},
		{Progress: doc(`1`), Checkpoint: doc(`null`)},
		{Checkpoint: doc(`{"at":9007199254740992,"text":"a\u00e9/\/<é\ud83d\ude00"}`)},
		{Checkpoint: doc(`{"at":9007199254740992,"text":"a\u00e9/\/<é\ud83d\ude00"}`)},
		{Checkpoint: doc(`{"at":9007199254740993,"text":"a\u00e9/\/<é\ud83d\ude00"}`)},
		{Checkpoint: doc(`{"at": 9007199254740993, "text": "a\u00e9/\/<é\ud83d\ude00"}`)},
		{Checkpoint: doc(`{"text":"a\u00e9/\/<é\ud83d\ude00","at":9007199254740993}`)},
		{Checkpoint: doc(`[1.0, 1e2, -0.0, 1E+2, 0.1e-10, 123456789012345678901234567890]`)},
		{Checkpoint: doc(`[1.0,1e2,-0.0,1E+2,0.1e-10,123456789012345678901234567890]`)},
	}
}

const insertPing = "INSERT INTO ping (id, fence, progress, checkpoint, message, next_within_s) VALUES (?, ?, ?, ?, ?, ?)"

// pingArgs writes a ping as an application would.
func pingArgs(id task.ID, f task.Fence, p store.Ping) []any {
	return []any{
		int64(id), int64(f), textOrNull(plain(p.Progress)), jsonText(p.Checkpoint), textOrNull(p.Message), null(p.NextWithin.Seconds()),
	}
}

// samePing pings the first row by the call and the second by the view.
func (h *harness) samePing(t *testing.T, rows []task.Task, p store.Ping, name string) {
	t.Helper()
	replies, err := h.TakePings(t.Context(), []store.RemotePing{{ID: rows[0].ID, Fence: rows[0].Fence, Ping: p}})
	require.NoError(t, err, name)
	require.Equal(t, store.Applied, replies[0].Answer, name)
	require.NoError(t, h.exec(t, insertPing, pingArgs(rows[1].ID, rows[1].Fence, p)...), name)

	byCall, byView := h.marks(t, rows[0].ID), h.marks(t, rows[1].ID)
	const near = 2 * time.Second
	require.WithinDuration(t, byCall.due, byView.due, near, name)
	require.WithinDuration(t, byCall.until, byView.until, near, name)
	byView.due, byView.until = byCall.due, byCall.until
	byCall.checkpoint = compacted(t, byCall.checkpoint)
	require.Equal(t, byCall, byView, name)

	var cancel bool
	var reason sql.NullString
	var remaining float64
	require.NoError(t, h.app.QueryRowContext(t.Context(), "SELECT cancel, reason, remaining_s FROM ping WHERE id = ? AND fence = ?",
		int64(rows[1].ID), int64(rows[1].Fence)).Scan(&cancel, &reason, &remaining), name)
	require.Equal(t, replies[0].Cancel, cancel, name)
	require.InDelta(t, replies[0].Remaining.Seconds(), remaining, near.Seconds(), name)
	if cancel {
		require.Equal(t, replies[0].Reason, reason.String, name)
	}
}

// Which texts an application may give for progress, and how they stand in the row.
func TestProgressAsApplicationsWriteIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	row := h.held(t, h.session(t, p), p, task.Run, 1, 0)[0]
	for _, c := range []struct {
		given any
		kept  string
	}{
		{0.4, `0.4`}, {"0.5", `0.5`}, {0, `0`}, {1, `1`}, {"1e-3", `1e-3`}, {" 0.7 ", `0.7`},
		{2, `"2"`}, {-0.1, `"-0.1"`}, {"41", `"41"`}, {"1e400", `"1e400"`},
		{`{"done": 40, "total": 100}`, `{"done":40,"total":100}`}, {`{"done": 4, "total": 10, "x": 1}`, `"{\"done\": 4, \"total\": 10, \"x\": 1}"`},
		{`{"done": 40}`, `"{\"done\": 40}"`},
		{`{"done": "40", "total": 100}`, `"{\"done\": \"40\", \"total\": 100}"`},
		{"page 40", `"page 40"`}, {`"quoted"`, `"\"quoted\""`}, {"[1]", `"[1]"`}, {"true", `"true"`}, {"null", `"null"`},
		{"{done: 1, total: 2}", `"{done: 1, total: 2}"`}, {"[", `"["`}, {"größer", `"größer"`}, {"a\nb", `"a\nb"`},
		{strings.Repeat("x", store.MaxProgress-2), `"` + strings.Repeat("x", store.MaxProgress-2) + `"`},
	} {
		require.NoError(t, h.exec(t, "INSERT INTO ping (id, fence, progress) VALUES (?, ?, ?)", int64(row.ID), int64(row.Fence), c.given))
		require.Equal(t, c.kept, h.marks(t, row.ID).progress, "%v", c.given)
		require.NoError(t, h.exec(t, "INSERT INTO ping (id, fence, progress) VALUES (?, ?, '')", int64(row.ID), int64(row.Fence)))
		require.Equal(t, c.kept, h.marks(t, row.ID).progress, "nothing said")
		info, err := h.Get(t.Context(), row.ID)
		require.NoError(t, err)
		require.True(t, json.Valid(info.Progress))
	}
}

// compacted is a document without the spaces between.
func compacted(t testing.TB, doc string) string {
	t.Helper()
	var b bytes.Buffer
	if doc != "" {
		require.NoError(t, json.Compact(&b, []byte(doc)))
	}
	return b.String()
}

func settleAll(rows ...task.Task) []store.Settlement {
	all := make([]store.Settlement, len(rows))
	for i, row := range rows {
		all[i] = succeeded(row)
	}
	return all
}
