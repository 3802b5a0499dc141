package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// length draws a length that ends between two steps.
func length(t *rapid.T, label string, most int) time.Duration {
	return time.Duration(rapid.IntRange(0, most).Draw(t, label))*step + half
}

// delay draws a length that ends between two steps, or none.
func delay(t *rapid.T, label string) time.Duration {
	if rapid.Bool().Draw(t, label+" none") {
		return 0
	}
	return length(t, label, 4)
}

func types(t *rapid.T) string   { return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "type") }
func regions(t *rapid.T) string { return rapid.SampledFrom([]string{"", "", "sg"}).Draw(t, "region") }

func request(t *rapid.T) store.EnqueueRequest {
	r := store.EnqueueRequest{
		Type: types(t), Region: regions(t), In: delay(t, "in"),
		Priority: rapid.IntRange(-1, 1).Draw(t, "priority"),
	}
	if r.Type == "a" {
		r.Sequence = rapid.SampledFrom([]string{"", "", "p", "q"}).Draw(t, "sequence")
		r.Lock = rapid.SampledFrom([]string{"", "", "x", "y"}).Draw(t, "lock")
	} else { // both: which row of several a claim finds that is then held back is the store's own
		r.Tenant = rapid.SampledFrom([]string{"", "", "x", "y", "z"}).Draw(t, "tenant")
	}
	if rapid.Bool().Draw(t, "more") {
		r.MaxAttempts = 3
		r.Labels = map[string]string{"tenant": "acme"}
		r.Payload = json.RawMessage(`{"invoice":7}`)
		r.RollbackPayload = json.RawMessage(`{"was":7}`)
	}
	return r
}

func (m *machine) insert(t *rapid.T) {
	m.begin()
	for range rapid.IntRange(1, 4).Draw(t, "rows") {
		r := request(t)
		asked, ideal := m.after(t, r)
		m.added(pair[task.ID]{real: m.real.Insert(m.t, asked)[0], ideal: m.ideal.Insert(m.t, ideal)[0]})
		m.pass(tick)
	}
}

// added notes a new task.
func (m *machine) added(p pair[task.ID]) {
	if n := len(m.tasks); n > 0 {
		require.Greater(m.t, p.real, m.tasks[n-1].real, "ids rise")
	}
	m.tasks = append(m.tasks, p)
}

func (m *machine) enqueue(t *rapid.T) {
	ctx := m.begin()
	r := request(t)
	r.Key = rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "key")
	if r.Key != "" {
		onLive(t, &r)
	}
	asked, ideal := r, r
	if r.Live() == store.OnLiveKeep {
		asked, ideal = m.after(t, r)
	}
	want, wantAnswer, err := m.ideal.Enqueue(ctx, ideal)
	require.NoError(m.t, err)
	got, answer, err := m.real.Enqueue(ctx, asked)
	require.NoError(m.t, err)
	require.Equal(m.t, wantAnswer, answer, "what became of the row")
	if place(m.tasks, onIdeal, want) < 0 { // a new row, or a new follower
		m.added(pair[task.ID]{real: got, ideal: want})
		return
	}
	require.Equal(m.t, place(m.tasks, onIdeal, want), place(m.tasks, onReal, got), "the row of the key")
}

// onLive draws what becomes of the live row of the key.
func onLive(t *rapid.T, r *store.EnqueueRequest) {
	r.OnLive = rapid.SampledFrom([]store.OnLive{"", store.OnLiveKeep, store.OnLiveReplace, store.OnLiveAgain}).Draw(t, "on live")
	if r.OnLive != store.OnLiveReplace || !rapid.Bool().Draw(t, "debounced") {
		return
	}
	r.In, r.Debounce = 0, length(t, "debounce", 3)
	if rapid.Bool().Draw(t, "bounded") {
		r.DebounceMax = r.Debounce + time.Duration(rapid.IntRange(0, 3).Draw(t, "more"))*step
	}
}

// pick draws a session.
func (m *machine) pick(t *rapid.T) (int, *session) {
	i := rapid.IntRange(0, len(m.sessions)-1).Draw(t, "session")
	return i, m.sessions[i]
}

func (m *machine) wants(t *rapid.T) []store.Want {
	var out []store.Want
	for _, typ := range []string{"a", "b"} {
		for _, phase := range []task.Phase{task.Run, task.Rollback} {
			if n := rapid.IntRange(-1, 4).Draw(t, "rows of "+typ+" "+string(phase)); n > 0 {
				out = append(out, store.Want{
					Type: typ, Phase: phase, N: n, Window: length(t, "window", 5),
					Policy: m.policy(t, n), Deadline: delay(t, "deadline"),
				})
			}
		}
	}
	return out
}

func (m *machine) claim(t *rapid.T) {
	ctx := m.begin()
	i, _ := m.pick(t)
	c := store.Claim{Region: regions(t), Wants: m.wants(t)}
	for n := range c.Wants {
		if w := &c.Wants[n]; m.about == AboutChunks && w.Phase == task.Rollback && w.N > 0 {
			w.N = 100 // all: which row of a batch is cancelled first is the stores' own, and so is which is due first
		}
	}
	m.passes(t, &c)
	m.claimAs(ctx, i, c)
}

// claimAs has a session claim.
func (m *machine) claimAs(ctx context.Context, i int, c store.Claim) {
	s := m.sessions[i]
	s.claims++
	var wantCut, cut bool
	var wantPass, pass store.Pass
	if c.Pass != nil {
		wantPass, pass = *c.Pass, *c.Pass
		c.Pass = &pass
	}
	wantRooms, rooms := map[string]store.Room{}, map[string]store.Room{}
	c.Session, c.Number, c.Cut, c.Limited = s.real, s.claims, &cut, rooms
	var why []explained
	if c.Pass == nil { // else it may free what it then takes
		why = explain(ctx, m.t, m.real, m.explains, explainsAtOnce)
		m.explains += len(why)
	}
	got, err := m.real.Claim(ctx, c)
	require.NoError(m.t, err)
	agrees(m.t, why, c, got)
	first := map[task.ID]bool{} // whose turns came first
	for _, row := range got {
		if at := place(m.tasks, onReal, row.ID); at >= 0 {
			first[m.tasks[at].ideal] = true
		}
	}
	m.ideal.Prefer(first)
	c.Session, c.Cut, c.Limited = s.ideal, &wantCut, wantRooms
	if c.Pass != nil {
		c.Pass = &wantPass
	}
	want, err := m.ideal.Claim(ctx, c)
	require.NoError(m.t, err)
	require.Equal(m.t, wantCut, cut, "whether more may be due")
	m.samePromoted(wantPass.Promoted, pass.Promoted)
	wantViews, views := m.taskViews(want, onIdeal), m.taskViews(got, onReal)
	if m.about == AboutChunks {
		wantViews, views = byRow(wantViews), byRow(views)
	}
	require.Equal(m.t, wantViews, views, "what is claimed")
	require.Equal(m.t, roomViews(wantRooms), roomViews(rooms), "what limits leave room for, and whether tenants wait for room")
	for _, row := range want {
		m.hold(i, row, row.Fence)
	}
}

// hold notes that a session has got a row.
func (m *machine) hold(session int, row task.Task, ran task.Fence) {
	at := place(m.tasks, onIdeal, row.ID)
	m.everStarted[at] = true
	m.holds = append(m.holds, hold{
		row: at, session: session, fence: row.Fence, ran: ran, attempt: row.Attempt, phase: row.Phase(),
	})
}

func (m *machine) claimed(t *rapid.T) {
	ctx := m.begin()
	_, s := m.pick(t)
	number := rapid.Int64Range(1, max(s.claims, 1)).Draw(t, "number")
	want, err := m.ideal.Claimed(ctx, s.ideal, number)
	require.NoError(m.t, err)
	got, err := m.real.Claimed(ctx, s.real, number)
	require.NoError(m.t, err)
	require.Equal(m.t, byRow(m.taskViews(want, onIdeal)), byRow(m.taskViews(got, onReal)), "what was claimed")
}

func (m *machine) nextDue(t *rapid.T) {
	ctx := m.begin()
	c := store.Claim{Region: regions(t), Wants: m.wants(t)}
	want, wantOK, err := m.ideal.NextDue(ctx, c)
	require.NoError(m.t, err)
	got, ok, err := m.real.NextDue(ctx, c)
	require.NoError(m.t, err)
	require.Equal(m.t, wantOK, ok, "whether any row waits")
	require.Equal(m.t, inHalves(want), inHalves(got), "until the next is due")
}

// someone draws holds, each row once, most of them right: with the fence and by the session that they have.
func (m *machine) someone(t *rapid.T) (*session, []hold) {
	if len(m.holds) == 0 {
		t.Skip("nothing was ever held")
	}
	recent := m.holds[max(len(m.holds)-8, 0):]
	drawn := rapid.SliceOfNDistinct(rapid.SampledFrom(recent), 1, 4, func(h hold) int { return h.row }).Draw(t, "holds")
	s := m.sessions[drawn[0].session]
	if rapid.IntRange(0, 9).Draw(t, "foreign") == 0 {
		_, s = m.pick(t)
	}
	for i := range drawn {
		if rapid.IntRange(0, 9).Draw(t, "stale") == 0 {
			drawn[i] = m.withFence(drawn[i], drawn[i].fence+task.Fence(rapid.IntRange(-2, 2).Draw(t, "by")))
		}
		m.everStarted[drawn[i].row] = true
	}
	return s, drawn
}

// withFence returns the hold of h's row that had the fence: no session says of a hold what was true of another. If there never was one, h
// has it.
func (m *machine) withFence(h hold, f task.Fence) hold {
	for _, other := range m.holds {
		if other.row == h.row && other.fence == f {
			return other
		}
	}
	h.fence = f
	return h
}

func (m *machine) renew(t *rapid.T) {
	ctx := m.begin()
	s, holds := m.someone(t)
	var onModel, onStore []store.Renewal
	for _, h := range holds {
		r := store.Renewal{
			ID: m.tasks[h.row].ideal, Fence: h.fence, Window: length(t, "window", 5), Exact: rapid.Bool().Draw(t, "exact"),
			Most: rapid.SampledFrom([]time.Duration{0, window, 2 * window}).Draw(t, "most"),
			Age:  time.Duration(rapid.IntRange(0, 3).Draw(t, "age")) * step,
		}
		m.renewMore(t, &r)
		onModel = append(onModel, r)
		r.ID = m.tasks[h.row].real
		onStore = append(onStore, r)
	}
	want, err := m.ideal.Renew(ctx, s.ideal, onModel)
	require.NoError(m.t, err)
	got, err := m.real.Renew(ctx, s.real, onStore)
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "renewing %v", holds)
}

// sent is a settlement as it was sent.
type sent struct {
	session         *session
	holds           []hold
	onModel, onReal []store.Settlement
}

func (m *machine) settle(t *rapid.T) {
	m.begin()
	call := sent{}
	call.session, call.holds = m.someone(t)
	for _, h := range call.holds {
		e := settlement(t, h)
		m.settleMore(t, &e)
		e.ID = m.tasks[h.row].ideal
		call.onModel = append(call.onModel, e)
		e.ID = m.tasks[h.row].real
		call.onReal = append(call.onReal, e)
	}
	mournOne(t, &call)
	m.send(call)
	m.sent = append(m.sent, call)
}

// finish is settle, by which all rows finish.
func (m *machine) finish(t *rapid.T) {
	m.begin()
	s, holds := m.someone(t)
	m.finishAll(t, s, holds)
}

func (m *machine) finishAll(t *rapid.T, s *session, holds []hold) {
	if len(holds) == 0 {
		return
	}
	call := sent{session: s, holds: holds}
	for _, h := range call.holds {
		e := settlement(t, h)
		e.Silent = false
		e.Next.State = rapid.SampledFrom([]task.State{task.StateSucceeded, task.StateFailed, task.StateFailed}).Draw(t, "as")
		if h.phase == task.Rollback {
			e.Next.State = task.StateRolledBack
		}
		e.ID = m.tasks[h.row].ideal
		call.onModel = append(call.onModel, e)
		e.ID = m.tasks[h.row].real
		call.onReal = append(call.onReal, e)
	}
	mournOne(t, &call)
	m.send(call)
	m.sent = append(m.sent, call)
}

func (m *machine) repeat(t *rapid.T) {
	if len(m.sent) == 0 {
		t.Skip("nothing was ever settled")
	}
	m.begin()
	recent := m.sent[max(len(m.sent)-4, 0):]
	m.send(recent[rapid.IntRange(0, len(recent)-1).Draw(t, "settlement")])
}

func (m *machine) send(c sent) {
	ctx := m.t.Context()
	want, err := m.ideal.Settle(ctx, c.session.ideal, c.onModel)
	require.NoError(m.t, err)
	got, err := m.real.Settle(ctx, c.session.real, c.onReal)
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "settling %v", c.holds)
	for _, h := range c.holds {
		m.everStarted[h.row] = true
	}
}

func settlement(t *rapid.T, h hold) store.Settlement {
	e := store.Settlement{
		Fence: h.fence, RanFence: h.ran, Phase: h.phase, Attempt: h.attempt, Started: -1,
		Outcome: task.Outcome{
			Verdict: rapid.SampledFrom(task.Verdicts()).Draw(t, "verdict"),
			Error:   rapid.SampledFrom([]string{"", "it broke"}).Draw(t, "error"),
			Output:  rapid.SampledFrom([]string{"", "some output"}).Draw(t, "output"),
		},
	}
	if rapid.IntRange(0, 4).Draw(t, "silent") == 0 {
		e.Silent = true
		e.Next = task.Transition{State: task.StatePending, Attempt: h.attempt - 1, Delay: delay(t, "delay")}
		if h.phase == task.Rollback {
			e.Next.State, e.Next.EverStarted = task.StateRollbackPending, true
		}
		return e
	}
	if rapid.Bool().Draw(t, "result") {
		e.Outcome.Result = json.RawMessage(fmt.Sprintf(`{"of":%d}`, h.fence))
	}
	if rapid.Bool().Draw(t, "started") {
		e.Started = length(t, "started", 3)
	}
	to := []task.State{
		task.StatePending, task.StateRetryPending, task.StateRetryPending, task.StateRollbackPending,
		task.StateSucceeded, task.StateFailed, task.StateCancelled,
	}
	if h.phase == task.Rollback {
		to = []task.State{task.StateRollbackPending, task.StateRolledBack, task.StateRollbackFailed}
	}
	next := rapid.SampledFrom(to).Draw(t, "next")
	e.Next = task.Transition{
		State: next, Delay: delay(t, "delay"), AfterLease: rapid.Bool().Draw(t, "after lease"),
		Attempt:   rapid.IntRange(0, h.attempt).Draw(t, "attempt"),
		Deferrals: rapid.IntRange(0, 2).Draw(t, "deferrals"), EverStarted: rapid.Bool().Draw(t, "everStarted"),
		Reason: rapid.SampledFrom([]string{"", "past its deadline"}).Draw(t, "reason"),
	}
	return e
}

func (m *machine) agent(name string) store.Agent {
	a := agent(name)
	a.Presence = 2*step + half
	a.Types = []string{"a"}
	if name == observer {
		a.Types, a.Workers = []string{"a", "b"}, 0
	}
	a.Policies = machinePolicies()
	return a
}

// observer is the name of agents without workers.
const observer = "observer"

func (m *machine) join(name string) {
	ctx := m.begin()
	p := pair[task.Session]{}
	var err error
	p.ideal, err = m.ideal.Join(ctx, m.agent(name))
	require.NoError(m.t, err)
	p.real, err = m.real.Join(ctx, m.agent(name))
	require.NoError(m.t, err)
	m.sessions = append(m.sessions, &session{pair: p, name: name})
}

func (m *machine) present(t *rapid.T) {
	_, s := m.pick(t)
	m.presentAs(t, s)
}

func (m *machine) presentAs(t *rapid.T, s *session) {
	ctx := m.begin()
	view := sees(t)
	want, err := m.ideal.Present(ctx, store.Heartbeat{Session: s.ideal, Agent: m.agentOf(s), View: view(m.ideal)})
	require.NoError(m.t, err)
	got, err := m.real.Present(ctx, store.Heartbeat{Session: s.real, Agent: m.agentOf(s), View: view(m.real)})
	require.NoError(m.t, err)
	require.Equal(m.t, m.heldViews(want.Held, onIdeal), m.heldViews(got.Held, onReal), "what it holds")
}

func (m *machine) heldViews(list []store.Held, ids taskSide) []store.Held {
	out := make([]store.Held, len(list))
	for i, h := range list {
		out[i] = h
		out[i].ID = task.ID(place(m.tasks, ids, h.ID))
		out[i].Left = time.Duration(inHalves(h.Left)) * half
		out[i].PingDue = time.Duration(inHalves(h.PingDue)) * half
		out[i].Marks = nil
		if marks := task.MarksOf(h.Marks, h.Fence); h.Marks != nil && h.Claim > 0 { // who reaps a row needs none
			for _, n := range []*json.Number{&marks.Number, &marks.Done} {
				if f, err := n.Float64(); err == nil {
					*n = json.Number(fmt.Sprint(f)) // 0.5 or 0.50
				}
			}
			out[i].Marks = marks.JSON()
		}
	}
	slices.SortFunc(out, func(a, b store.Held) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (m *machine) leave(t *rapid.T) {
	ctx := m.begin()
	_, s := m.pick(t)
	require.NoError(m.t, m.ideal.Leave(ctx, s.ideal))
	require.NoError(m.t, m.real.Leave(ctx, s.real))
}

// spill has an agent take over what has waited too long. All other times are halves of a step, so nothing is late by a hair.
func (m *machine) spill(t *rapid.T) {
	ctx := m.begin()
	region, types := regions(t), []store.Spill{{
		Type: types(t), After: time.Duration(rapid.IntRange(0, 4).Draw(t, "after"))*step + half/2,
	}}
	want, err := m.ideal.Spill(ctx, region, types)
	require.NoError(m.t, err)
	got, err := m.real.Spill(ctx, region, types)
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "rows that spill")
}
