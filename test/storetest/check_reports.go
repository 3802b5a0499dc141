package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What a task says of itself, by whatever way it reaches the store.
func noteChecks() []Check {
	return []Check{
		{"a renewal writes them", reportsRenewed},
		{"a renewal that moves nothing writes them", reportsLate},
		{"a renewal that is refused does not", reportsRefused},
		{"the next attempt is handed the checkpoint", reportsHanded},
		{"reaping keeps the checkpoint", reportsReaped},
		{"a settlement writes them", reportsSettled},
		{"a settlement that is refused does not", reportsUnsettled},
		{"a finished task keeps them", reportsFinished},
		{"of the greatest length", reportsLong},
		{"whatever a task says, its lease is renewed", reportsHostile},
	}
}

func reported(progress, message, checkpoint string) store.Report {
	return store.Report{Progress: raw(progress), Message: message, Checkpoint: raw(checkpoint)}
}

func reportsRenewed(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	r.insert(3)
	rows := r.claim(under(beating(), 3))
	before := r.get(rows[1].ID)
	write := func(all ...store.Report) {
		t.Helper()
		renewals := make([]store.Renewal, len(all))
		for i, n := range all {
			renewals[i] = store.Renewal{ID: rows[i].ID, Fence: rows[i].Fence, Window: 20 * time.Minute, Report: n}
		}
		got, err := r.Renew(r.ctx, r.session, renewals)
		require.NoError(t, err)
		require.Equal(t, same(store.Applied, len(all)), got)
	}
	write(reported(`0.1`, "page 1", `{"page":1}`), store.Report{}, reported("", "", `[3]`))
	near(t, r.now().Add(20*time.Minute), r.leaseEnd(rows[1].ID))
	r.reports(rows[0].ID, `0.1`, "page 1", `{"page":1}`)
	after := r.get(rows[1].ID)
	before.LeaseEnd = after.LeaseEnd
	require.Equal(t, before, after, "who has said nothing")
	r.reports(rows[2].ID, "", "", `[3]`)
	write(reported("", "page 2", ""), reported(`{"done":1,"total":2}`, "", ""), reported(`"middle"`, "", `null`))
	r.reports(rows[0].ID, `0.1`, "page 2", `{"page":1}`)
	r.reports(rows[1].ID, `{"done":1,"total":2}`, "", "")
	r.reports(rows[2].ID, `"middle"`, "", `null`)
}

func reportsLate(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	end := r.leaseEnd(row.ID)
	got := r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Age: time.Hour, Window: time.Minute, Report: reported(`0.5`, "half", `5`)})
	require.Equal(t, store.Applied, got)
	require.WithinDuration(t, end, r.leaseEnd(row.ID), time.Millisecond)
	r.reports(row.ID, `0.5`, "half", `5`)
}

func reportsRefused(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.heldUnder(beating())
	w := store.Renewal{ID: row.ID, Fence: row.Fence, Window: time.Hour, Detach: true, Report: reported(`0.9`, "stale", `"stale"`)}
	r.unchanged(row.ID, func() {
		require.Equal(t, store.Lost, o.renewOne(w))
		for _, f := range []task.Fence{row.Fence - 1, row.Fence + 1, -1} {
			w.Fence = f
			require.Equal(t, store.Lost, r.renewOne(w), "fence %d", f)
		}
	})
	r.settled(retry(row, time.Hour))
	r.unchanged(row.ID, func() {
		for _, f := range []task.Fence{row.Fence, row.Fence + 1} {
			w.Fence = f
			require.Equal(t, store.Lost, r.renewOne(w), "fence %d", f)
		}
	})
}

func reportsHanded(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	require.Nil(t, row.Checkpoint)
	r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Report: reported(`0.4`, "page 40", `{"page":40}`)})
	r.settled(retry(row, 0))
	r.reports(row.ID, `0.4`, "page 40", `{"page":40}`)

	row = r.claim(under(beating(), 1))[0]
	require.JSONEq(t, `{"page":40}`, string(row.Checkpoint))
	back, err := r.Claimed(r.ctx, r.session, r.claims)
	require.NoError(t, err)
	require.Len(t, back, 1)
	require.JSONEq(t, `{"page":40}`, string(back[0].Checkpoint), "when it is read back, too")
	r.reports(row.ID, `0.4`, "page 40", `{"page":40}`)
	r.settled(release(row))
	row = r.second().claim(under(beating(), 1))[0]
	require.JSONEq(t, `{"page":40}`, string(row.Checkpoint), "also to another agent, and after an attempt that never started")
	r.counted(row, store.Ping{Checkpoint: raw(`{"page":50}`)})
	r.reports(row.ID, `0.4`, "page 40", `{"page":50}`)
}

func reportsReaped(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.heldUnder(beating())
	r.counted(row, store.Ping{Progress: raw(`0.4`), Checkpoint: raw(`{"page":40}`)})
	require.NoError(t, r.Leave(r.ctx, r.session))
	reaped := o.sweep(10)
	require.Len(t, reaped, 1)
	o.settled(retry(reaped[0].Task, 0))
	require.JSONEq(t, `{"page":40}`, string(o.claim(under(beating(), 1))[0].Checkpoint))
}

func reportsSettled(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	end := retry(row, 0)
	end.Report = reported(`0.4`, "page 40", `{"page":40}`)
	r.settled(end)
	r.reports(row.ID, `0.4`, "page 40", `{"page":40}`)
	row = r.claim(under(beating(), 1))[0]
	require.JSONEq(t, `{"page":40}`, string(row.Checkpoint))
	end = retry(row, 0)
	end.Report = reported("", "page 50", "")
	r.settled(end)
	r.reports(row.ID, `0.4`, "page 50", `{"page":40}`)
	row = r.claim(under(beating(), 1))[0]
	end = finish(row)
	end.Report = reported(`1`, "", `"the end"`)
	r.settled(end)
	r.reports(row.ID, `1`, "page 50", `"the end"`)

	// Of one whose cancellation was requested, and that ends well before it knows of that.
	row = r.heldUnder(beating())
	require.Equal(t, store.Cancelling, r.cancel(row.ID, "alice"))
	end = retry(row, 0)
	end.Report = reported(`0.1`, "again", `[0]`)
	r.unchanged(row.ID, func() { require.Equal(t, same(store.CancelPending, 1), r.settle(end)) })
	end = finish(row)
	end.Report = reported(`1`, "done", `[1]`)
	r.settled(end)
	r.reports(row.ID, `1`, "done", `[1]`)

	// At the first try, with others that have nothing to say.
	r.insert(3)
	rows := r.claim(under(beating(), 3))
	end = finish(rows[1])
	end.Report = reported(`{"done":2,"total":2}`, "all pages", `[2]`)
	r.settled(finish(rows[0]), end, finish(rows[2]))
	r.reports(rows[0].ID, "", "", "")
	r.reports(rows[1].ID, `{"done":2,"total":2}`, "all pages", `[2]`)
	r.unchanged(rows[1].ID, func() {
		end.Report = reported(`0.1`, "again", `0`)
		require.Equal(t, same(store.Ended, 1), r.settle(end))
	})
}

func reportsUnsettled(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	r.unchanged(row.ID, func() {
		for _, end := range []store.Settlement{finish(row), retry(row, 0)} {
			end.Report = reported(`0.9`, "stale", `"stale"`)
			end.Fence++
			require.Equal(t, same(store.Lost, 1), r.settle(end))
			end.Fence--
			require.Equal(t, same(store.Lost, 1), r.second().settle(end))
		}
	})
}

func reportsFinished(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for _, state := range []task.State{task.StateSucceeded, task.StateFailed, task.StateCancelled} {
		row := r.heldUnder(beating())
		r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Report: reported(`0.4`, "page 40", `{"page":40}`)})
		end := finish(row)
		end.Next.State = state
		r.settled(end)
		r.reports(row.ID, `0.4`, "page 40", `{"page":40}`)
	}
}

func reportsLong(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	long := reported(text(store.MaxProgress), strings.Repeat("x", store.MaxMessage), text(store.MaxCheckpoint))
	r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Report: long})
	r.reports(row.ID, string(long.Progress), long.Message, string(long.Checkpoint))
	_, err := r.pingSQL(row.ID, row.Fence, store.Ping{Checkpoint: raw(text(store.MaxCheckpoint - 1))})
	require.NoError(t, err)
	r.settled(retry(row, 0))
	row = r.claim(under(beating(), 1))[0]
	require.Len(t, row.Checkpoint, store.MaxCheckpoint-1)
	end := finish(row)
	end.Report = long
	r.settled(end)
	r.reports(row.ID, string(long.Progress), long.Message, string(long.Checkpoint))
}

func reportsHostile(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	r.insert(3)
	rows := r.claim(under(beating(), 3))
	for _, text := range append(strange(), awkward()...) {
		n := store.Report{Message: text}
		if len(text) <= store.MaxCheckpoint && strings.Contains(strings.Join(awkward(), "\n"), text) && text != " " {
			n = reported(`"page"`, "well", text)
			if len(text) <= store.MaxProgress {
				n.Progress = raw(text)
			}
		}
		name := text[:min(len(text), 40)]
		r.hostileReports(rows, n, name)
	}
}

// hostileReports has the notes of one row reach the store by each way, in the midst of others' that must not suffer.
func (r *liveRig) hostileReports(rows []task.Task, n store.Report, name string) {
	r.t.Helper()
	renewals := make([]store.Renewal, len(rows))
	pings := make([]store.RemotePing, len(rows))
	for i, row := range rows {
		renewals[i] = store.Renewal{ID: row.ID, Fence: row.Fence, Window: 20 * time.Minute, Report: reported(`0.4`, "well", `{"page":40}`)}
		pings[i] = store.RemotePing{ID: row.ID, Fence: row.Fence, Ping: store.Ping{Checkpoint: raw(`{"page":50}`)}}
	}
	renewals[1].Report = n
	got, err := r.Renew(r.ctx, r.session, renewals)
	require.NoError(r.t, err, name)
	require.Equal(r.t, same(store.Applied, 3), got, name)
	near(r.t, r.now().Add(20*time.Minute), r.leaseEnd(rows[1].ID))
	r.reports(rows[0].ID, `0.4`, "well", `{"page":40}`)
	require.NotEmpty(r.t, r.get(rows[1].ID).Message, "%s: as much as can be is kept", name)

	pings[1].Progress, pings[1].Message, pings[1].Checkpoint = n.Progress, n.Message, n.Checkpoint
	for _, reply := range r.pings(pings...) {
		require.Equal(r.t, store.Applied, reply.Answer, name)
	}
	r.reports(rows[2].ID, `0.4`, "well", `{"page":50}`)

	r.insert(3)
	others := r.claim(under(beating(), 3))
	ends := []store.Settlement{finish(others[0]), finish(others[1]), retry(others[2], reapFor)}
	ends[1].Report, ends[2].Report = n, n
	r.settled(ends...)
	require.NotEmpty(r.t, r.get(others[1].ID).Message, name)
	require.NotEmpty(r.t, r.get(others[2].ID).Message, name)
}
