package storetest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// liveActions are those that are about liveness.
func (m *machine) liveActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"ping":        m.ping,
		"ping by SQL": m.pingSQL,
		"complete":    m.complete,
		"completed":   m.completed,
		"cancel":      m.cancel,
		"adopt":       m.adopt,
		"hold":        m.openOne,
		"release":     m.closeOne,
	}
}

// machinePolicies are those that rows are claimed under. Windows end half a step away from whatever happens; the lengths
// of stopping are odd, so that no sum of them ends where something happens.
func machinePolicies() map[task.PolicyHash]store.NamedPolicy {
	all := map[task.PolicyHash]store.NamedPolicy{}
	for _, p := range []task.Policy{
		{Timeout: 4*step + half, Stop: 17 * time.Minute},
		{
			Timeout: 6*step + half, Heartbeat: step + half, MaxHeartbeat: 3*step + half, Stop: 17 * time.Minute,
			Check: step,
		},
		{
			Timeout: 5*step + half, Heartbeat: 2*step + half, MaxHeartbeat: 2*step + half, Stop: step + 23*time.Minute,
			RequireProgress: true, OnFailed: "b",
			Rollback: &task.RollbackPolicy{
				Timeout: 4*step + half, Heartbeat: half, MaxHeartbeat: step + half, Stop: step + 17*time.Minute,
			},
		},
	} {
		all[p.Hash("a")] = store.NamedPolicy{Type: "a", Policy: p}
	}
	return all
}

// policy draws what a claim is under: one of the policies, or one that the store does not know.
func (m *machine) policy(t *rapid.T, n int) task.PolicyHash {
	hashes := []task.PolicyHash{task.PolicyHash(n)}
	for h := range machinePolicies() {
		hashes = append(hashes, h)
	}
	slices.Sort(hashes)
	return rapid.SampledFrom(hashes).Draw(t, "policy")
}

func reports(t *rapid.T) store.Report {
	drawn := func(name string, of ...string) string {
		return rapid.SampledFrom(append([]string{"", ""}, of...)).Draw(t, name)
	}
	return store.Report{
		Progress:   raw(drawn("progress", `0.25`, `0.5`, `0.50`, `{"done":1,"total":4}`, `"page 1"`, `"0.5"`)),
		Message:    drawn("message", "on page 1", "on page 2"),
		Checkpoint: raw(drawn("checkpoint", `{"page":1}`, `{"page":2}`, `{"at":1,"page":2}`, `{"page":2.0,"at":1}`, `null`)),
	}
}

func (m *machine) renewMore(t *rapid.T, r *store.Renewal) {
	r.Detach = rapid.IntRange(0, 3).Draw(t, "detach") == 0
	r.Report = reports(t)
	if rapid.IntRange(0, 3).Draw(t, "marks") == 0 {
		n := reports(t)
		r.Marks = &task.Marks{Fence: r.Fence}
		r.Marks.Advance(n.Progress, n.Checkpoint)
	}
}

func (m *machine) settleMore(t *rapid.T, e *store.Settlement) {
	e.CancelKnown = rapid.Bool().Draw(t, "cancel known")
	e.Report = reports(t)
}

// one draws a hold, most of them right.
func (m *machine) one(t *rapid.T) hold {
	_, holds := m.someone(t)
	return holds[0]
}

func drawPing(t *rapid.T) store.Ping {
	n := reports(t)
	return store.Ping{
		Progress: n.Progress, Message: n.Message, Checkpoint: n.Checkpoint, NextWithin: delay(t, "next within"),
	}
}

func (m *machine) ping(t *rapid.T) {
	ctx := m.begin()
	_, holds := m.someone(t)
	var onModel, onStore []store.RemotePing
	for _, h := range holds {
		p := store.RemotePing{ID: m.tasks[h.row].ideal, Fence: h.fence, Ping: drawPing(t)}
		onModel = append(onModel, p)
		p.ID = m.tasks[h.row].real
		onStore = append(onStore, p)
	}
	want, err := m.ideal.TakePings(ctx, onModel)
	require.NoError(m.t, err)
	got, err := m.real.TakePings(ctx, onStore)
	require.NoError(m.t, err)
	require.Equal(m.t, pingReplyViews(want), pingReplyViews(got), "pinging %v", holds)
}

// pingReplyViews gives what is left in halves of a step.
func pingReplyViews(replies []store.PingReply) []store.PingReply {
	out := make([]store.PingReply, len(replies))
	for i, p := range replies {
		out[i] = p
		out[i].Remaining = time.Duration(inHalves(p.Remaining))
	}
	return out
}

func (m *machine) pingSQL(t *rapid.T) {
	ctx := m.begin()
	h, p := m.one(t), drawPing(t)
	if string(p.Progress) == `"0.5"` {
		p.Progress = nil // SQL is given words, and this one is a number
	}
	var want, got *store.PingReply
	m.inBoth(
		func(a Application) (err error) {
			want, err = a.Ping(ctx, m.tasks[h.row].ideal, h.fence, p)
			return err
		},
		func(a Application) (err error) {
			got, err = a.Ping(ctx, m.tasks[h.row].real, h.fence, p)
			return err
		})
	if want != nil && got != nil {
		got.Answer, got.Reason = want.Answer, want.Reason
		require.Equal(m.t, pingReplyViews([]store.PingReply{*want}), pingReplyViews([]store.PingReply{*got}), "pinging %v by SQL", h)
	}
}

// inBoth does the same in an application's transaction on either store, and asserts that both or neither refuse it.
func (m *machine) inBoth(onModel, onStore func(Application) error) {
	m.inBothThen(true, onModel, onStore)
}

// inBothThen is inBoth in transactions that are committed or rolled back.
func (m *machine) inBothThen(commit bool, onModel, onStore func(Application) error) {
	do := func(a Application, f func(Application) error) string {
		err := f(a)
		if err == nil && commit {
			require.NoError(m.t, a.Commit(m.t.Context()))
			return "done"
		}
		require.NoError(m.t, a.Rollback(m.t.Context()))
		if err == nil {
			return "done"
		}
		if strings.Contains(err.Error(), "any more: stop, and commit nothing") {
			return "gone"
		}
		return "refused"
	}
	want := do(m.ideal.Begin(m.t), onModel)
	require.Equal(m.t, want, do(m.real.Begin(m.t), onStore), "what SQL says")
}

func (m *machine) complete(t *rapid.T) {
	ctx := m.begin()
	h := m.one(t)
	result := raw(rapid.SampledFrom([]string{"", `{"ok":true}`}).Draw(t, "result"))
	if !m.isOpen(h.row) && rapid.Bool().Draw(t, "by SQL") {
		held := rapid.Bool().Draw(t, "held")
		do := func(id task.ID) func(Application) error {
			return func(a Application) error {
				if held {
					if err := a.Hold(ctx, id, h.fence); err != nil {
						return err
					}
				}
				return a.Complete(ctx, id, h.fence, result)
			}
		}
		m.inBoth(do(m.tasks[h.row].ideal), do(m.tasks[h.row].real))
		return
	}
	want, err := m.ideal.Complete(ctx, m.tasks[h.row].ideal, h.fence, result)
	require.NoError(m.t, err)
	got, err := m.real.Complete(ctx, m.tasks[h.row].real, h.fence, result)
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "completing %v", h)
}

func (m *machine) completed(t *rapid.T) {
	ctx := m.begin()
	_, holds := m.someone(t)
	var onModel, onStore []store.Held
	for _, h := range holds {
		onModel = append(onModel, store.Held{ID: m.tasks[h.row].ideal, Fence: h.fence})
		onStore = append(onStore, store.Held{ID: m.tasks[h.row].real, Fence: h.fence})
	}
	want, err := m.ideal.Completed(ctx, onModel)
	require.NoError(m.t, err)
	got, err := m.real.Completed(ctx, onStore)
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "what is completed of %v", holds)
}

func (m *machine) cancel(t *rapid.T) {
	if len(m.tasks) == 0 {
		t.Skip("nothing to cancel")
	}
	ctx := m.begin()
	row := rapid.IntRange(0, len(m.tasks)-1).Draw(t, "row")
	if len(m.holds) > 0 && rapid.Bool().Draw(t, "that was held") {
		row = rapid.SampledFrom(m.holds[max(len(m.holds)-8, 0):]).Draw(t, "hold").row
	}
	m.everStarted[row] = true
	by := rapid.SampledFrom([]string{"alice", "bob"}).Draw(t, "by")
	if rapid.Bool().Draw(t, "by SQL") {
		var want, got store.Became
		m.inBoth(
			func(a Application) (err error) {
				want, err = a.Cancel(ctx, m.tasks[row].ideal, by)
				return err
			},
			func(a Application) (err error) {
				got, err = a.Cancel(ctx, m.tasks[row].real, by)
				return err
			})
		if got != "" {
			require.Equal(m.t, want, got, "cancelling %d by SQL", row)
		}
		return
	}
	want, err := m.ideal.Cancel(ctx, m.tasks[row].ideal, by)
	require.NoError(m.t, err)
	got, err := m.real.Cancel(ctx, m.tasks[row].real, by)
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "cancelling %d", row)
}

func (m *machine) adopt(t *rapid.T) {
	ctx := m.begin()
	i, s := m.pick(t)
	h := m.one(t)
	length := length(t, "reap for", 3)
	want, wantAnswer, err := m.ideal.Adopt(ctx, s.ideal, m.tasks[h.row].ideal, h.fence, length)
	require.NoError(m.t, err)
	got, answer, err := m.real.Adopt(ctx, s.real, m.tasks[h.row].real, h.fence, length)
	require.NoError(m.t, err)
	require.Equal(m.t, wantAnswer, answer, "adopting %v", h)
	if answer != store.Applied {
		require.Nil(m.t, got)
		return
	}
	require.Equal(m.t, m.reapedViews([]store.Reaped{*want}, onIdeal, onIdeal), m.reapedViews([]store.Reaped{*got}, onReal, onReal), "adopting %v", h)
	m.hold(i, want.Task, want.RanFence)
}

// openHold is a transaction of an application's that keeps a row.
type openHold struct {
	row         int
	fence       task.Fence
	ideal, real Application
}

func (m *machine) isOpen(row int) bool {
	for _, o := range m.open {
		if o.row == row {
			return true
		}
	}
	return false
}

// openOne begins a transaction that keeps a row. On a store without locks on rows it ends at once.
func (m *machine) openOne(t *rapid.T) {
	ctx := m.begin()
	h := m.one(t)
	o := &openHold{row: h.row, fence: h.fence, ideal: m.ideal.Begin(m.t), real: m.real.Begin(m.t)}
	want := o.ideal.Hold(ctx, m.tasks[h.row].ideal, h.fence)
	got := o.real.Hold(ctx, m.tasks[h.row].real, h.fence)
	require.Equal(m.t, want == nil, got == nil, "holding %v: %v, %v", h, want, got)
	m.open = append(m.open, o)
	if want != nil || len(m.open) > 2 || !m.keepsRows(h.row) {
		m.end(ctx, o, rapid.Bool().Draw(t, "commit"))
	}
}

// keepsRows reports whether others can go on while a row is kept.
func (m *machine) keepsRows(row int) bool {
	if m.locks == nil {
		release := m.real.LockRow(m.t, m.tasks[row].real)
		locks := release != nil
		if locks {
			release()
		}
		m.locks = &locks
	}
	return *m.locks
}

func (m *machine) closeOne(t *rapid.T) {
	if len(m.open) == 0 {
		t.Skip("nothing is kept")
	}
	ctx := m.begin()
	o := rapid.SampledFrom(m.open).Draw(t, "kept")
	m.everStarted[o.row] = true
	if rapid.Bool().Draw(t, "complete") && m.alone(o) {
		result := json.RawMessage(`"held"`)
		require.NoError(m.t, o.ideal.Complete(ctx, m.tasks[o.row].ideal, o.fence, result))
		require.NoError(m.t, o.real.Complete(ctx, m.tasks[o.row].real, o.fence, result))
	}
	m.end(ctx, o, rapid.Bool().Draw(t, "commit"))
}

// alone reports whether no other transaction keeps the same row: that one would be waited for.
func (m *machine) alone(o *openHold) bool {
	n := 0
	for _, other := range m.open {
		if other.row == o.row {
			n++
		}
	}
	return n == 1
}

func (m *machine) end(ctx context.Context, o *openHold, commit bool) {
	for i, other := range m.open {
		if other == o {
			m.open = append(m.open[:i], m.open[i+1:]...)
			break
		}
	}
	for _, a := range []Application{o.ideal, o.real} {
		if commit && a.Commit(ctx) == nil {
			continue // a commit after a refusal takes back, and may say so
		}
		require.NoError(m.t, a.Rollback(ctx))
	}
}
