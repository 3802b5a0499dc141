package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func onFailedChecks() []Check {
	return []Check{
		{"what it has", onFailedHas},
		{"one for each of a call", onFailedMany},
		{"of a task that is reaped", onFailedReaped},
		{"once its rollback has ended", onFailedRollback},
		{"by who completes the rollback", onFailedCompleted},
		{"again after a retry, and not after a rollback", onFailedAgain},
		{"none for one that was inserted so", onFailedChain},
		{"due when nothing is at work", onFailedDue},
		{"without data that it cannot have", onFailedData},
		{"none of what is not applied", onFailedLost},
		{"a crash loses and doubles none", onFailedCrash},
		{"it wakes an idle session", onFailedWakes},
	}
}

// deadKind is the type of the rows that are inserted for those of kind that have failed.
const deadKind = "suite.dead"

// mourned is beating with a row for each task that has failed.
func mourned() *task.Policy {
	p := beating()
	p.OnFailed = deadKind
	return p
}

func newOnFailedRig(t testing.TB, h Harness) *opsRig {
	t.Helper()
	r := newOpsRig(t, h)
	r.declare(kind, mourned())
	return r
}

// mourn is ended with a row of that type.
func mourn(row task.Task, v task.Verdict, s task.State, typ string) store.Settlement {
	e := ended(row, v, s)
	e.Next.OnFailed = typ
	return e
}

// dead claims all rows of a type that are due, and ends them well.
func (r *opsRig) dead(typ string) []task.Task {
	r.t.Helper()
	rows := r.claim(wantOf(typ, task.Run, 100))
	for _, row := range rows {
		r.settled(finish(row))
	}
	return rows
}

// one is dead where there has to be one row, of that task.
func (r *opsRig) one(of task.ID, reason string) (row task.Task, said map[string]any) {
	r.t.Helper()
	rows := r.dead(deadKind)
	require.Len(r.t, rows, 1, reason)
	require.NoError(r.t, json.Unmarshal(rows[0].Payload, &said), reason)
	require.EqualValues(r.t, of, said["id"], reason)
	return rows[0], said
}

// mournedRow claims a row under a policy with a row for each that has failed.
func (r *opsRig) mournedRow(phase task.Phase) task.Task {
	r.t.Helper()
	w := under(mourned(), 1)
	w.Phase = phase
	rows := r.claim(w)
	require.Len(r.t, rows, 1)
	return rows[0]
}

func onFailedHas(t testing.TB, h Harness) {
	r := newOnFailedRig(t, h)
	q := full(r.now())
	q.Tenant, q.Lock = "acme", "one at a time"
	id := r.Insert(t, q)[0]
	row := r.claimIn("sg", under(mourned(), 1))[0]
	e := mourn(row, task.Rejected, task.StateFailed, deadKind)
	e.Next.Reason = "attempt 1 of 4: it broke"
	r.settled(e)
	require.Equal(t, []store.Answer{store.Ended}, r.settle(e), "a repeat inserts none")
	require.Empty(t, r.dead(deadKind), "it is of the region")
	require.Zero(t, r.get(id).FailedTask, "it was not inserted for a failure")
	got := r.claimIn("sg", want(deadKind, 5))
	require.Len(t, got, 1)
	require.Equal(t, id, r.get(got[0].ID).FailedTask)
	sameJSON(t, fmt.Sprintf(`{"id": %d, "type": %q, "state": "failed", "outcome": "rejected", "error": "attempt 1 of 4: it broke",
		"rollback_error": null, "data": {"invoice": 7}}`, id, kind), got[0].Payload, "payload")
	require.JSONEq(t, `{"tenant":"acme"}`, string(got[0].Labels))
	require.Equal(t, "acme", got[0].Tenant)
	require.Equal(t, q.Traceparent, got[0].Traceparent)
	require.Equal(t, "leasehold", got[0].CreatedBy)
	require.Empty(t, got[0].Key+got[0].Lock+got[0].Sequence)
	require.Zero(t, got[0].Priority)
	require.Zero(t, got[0].MaxAttempts)
	require.Equal(t, 1, got[0].Attempt)
	near(t, r.now(), got[0].RunAt)
	near(t, r.now(), got[0].CreatedAt)
	r.settled(finish(got[0]))
	require.Equal(t, id, r.get(got[0].ID).FailedTask, "the archive keeps it")
	listed, err := r.List(r.ctx, store.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, listed, 2)
	require.Equal(t, []task.ID{id, 0}, []task.ID{listed[0].FailedTask, listed[1].FailedTask})
}

func onFailedMany(t testing.TB, h Harness) {
	r := newOnFailedRig(t, h)
	r.insert(6)
	rows := r.claim(under(mourned(), 6))
	r.settled(mourn(rows[0], task.Failed, task.StateFailed, deadKind), finish(rows[1]),
		mourn(rows[2], task.TimedOut, task.StateFailed, "suite.alert"), ended(rows[3], task.Failed, task.StateFailed),
		mourn(rows[4], task.Lost, task.StateFailed, deadKind), retry(rows[5], time.Hour))
	of := func(typ string) (said []string) {
		for _, row := range r.dead(typ) {
			var p struct {
				ID      task.ID
				Outcome string
			}
			require.NoError(t, json.Unmarshal(row.Payload, &p))
			said = append(said, fmt.Sprint(p.ID, p.Outcome))
		}
		return said
	}
	require.ElementsMatch(t, []string{fmt.Sprint(rows[0].ID, "failed"), fmt.Sprint(rows[4].ID, "lost")}, of(deadKind))
	require.Equal(t, []string{fmt.Sprint(rows[2].ID, "timed_out")}, of("suite.alert"))
}

func onFailedReaped(t testing.TB, h Harness) {
	r := newOnFailedRig(t, h)
	o := r.twin()
	id := r.insert(1)[0]
	first := r.mournedRow(task.Run)
	require.NoError(t, r.Leave(r.ctx, r.session))
	reaped := o.sweep(10)
	require.Len(t, reaped, 1)
	e := mourn(reaped[0].Task, task.Lost, task.StateFailed, deadKind)
	e.RanFence = reaped[0].RanFence
	o.settled(e)
	require.Equal(t, []store.Answer{store.Lost}, r.settle(mourn(first, task.Failed, task.StateFailed, deadKind)))
	_, said := o.one(id, "of the reaper")
	require.Equal(t, "lost", said["outcome"])
}

func onFailedRollback(t testing.TB, h Harness) {
	r := newOnFailedRig(t, h)
	for _, end := range []task.State{task.StateRolledBack, task.StateRollbackFailed} {
		id := r.insert(1)[0]
		r.settled(ended(r.mournedRow(task.Run), task.TimedOut, task.StateRollbackPending))
		require.Empty(t, r.dead(deadKind), "not yet")
		again := ended(r.mournedRow(task.Rollback), task.Failed, task.StateRollbackPending)
		again.Outcome.Error = "not undone"
		r.settled(again)
		require.Empty(t, r.dead(deadKind), "not yet")
		last := mourn(r.mournedRow(task.Rollback), verdictFor(end), end, deadKind)
		last.Outcome.Error = ""
		wanted := `null`
		if end == task.StateRollbackFailed {
			last.Outcome.Error = "never undone"
			wanted = `"never undone"`
		}
		r.settled(last)
		row, _ := r.one(id, string(end))
		sameJSON(t, fmt.Sprintf(`{"id": %d, "type": %q, "state": %q, "outcome": "timed_out", "error": "it broke", "rollback_error": %s,
			"data": {}}`, id, kind, end, wanted), row.Payload, "payload")
	}
}

func onFailedCompleted(t testing.TB, h Harness) {
	r := newOnFailedRig(t, h)
	for way, complete := range r.completions() {
		for _, cause := range []task.Verdict{task.Failed, task.Lost, task.Cancelled, task.Succeeded} {
			id := r.insert(1)[0]
			row := r.mournedRow(task.Run)
			if cause == task.Succeeded {
				r.settled(finish(row))
				_, err := r.Rollback(r.ctx, id, "alice")
				require.NoError(t, err)
			} else {
				r.settled(ended(row, cause, task.StateRollbackPending))
			}
			back := r.mournedRow(task.Rollback)
			require.Equal(t, cause, back.Cause)
			require.True(t, complete(id, back.Fence, ``), way)
			require.True(t, complete(id, back.Fence, ``), way)
			require.Equal(t, task.StateRolledBack, r.state(id))
			if task.FailedForGood(task.StateRolledBack, cause) {
				_, said := r.one(id, way)
				require.Equal(t, "rolled_back", said["state"], way)
				require.Equal(t, string(cause), said["outcome"], way)
				require.Equal(t, "it broke", said["error"], way)
			} else {
				require.Empty(t, r.dead(deadKind), "%s: %s", way, cause)
			}
			require.Equal(t, []store.Answer{store.Ended}, r.settle(mourn(back, task.Succeeded, task.StateRolledBack, deadKind)))
			require.Empty(t, r.dead(deadKind))
		}
		row := r.heldUnder(mourned())
		r.settled(mourn(row, task.Failed, task.StateFailed, deadKind))
		r.one(row.ID, way)
		_, err := r.Rollback(r.ctx, row.ID, "alice")
		require.NoError(t, err)
		require.True(t, complete(row.ID, r.mournedRow(task.Rollback).Fence, ``), way)
		require.Empty(t, r.dead(deadKind), "it has had its row")
		row = r.heldUnder(mourned())
		require.True(t, complete(row.ID, row.Fence, ``), way)
		require.Empty(t, r.dead(deadKind), "a run that is completed has not failed")
	}
}

func onFailedAgain(t testing.TB, h Harness) {
	r := newOnFailedRig(t, h)
	id := r.insert(1)[0]
	fail := func() { r.settled(mourn(r.mournedRow(task.Run), task.Failed, task.StateFailed, deadKind)) }
	rollBack := func(s task.State) {
		_, err := r.Rollback(r.ctx, id, "alice")
		require.NoError(t, err)
		r.settled(mourn(r.mournedRow(task.Rollback), verdictFor(s), s, deadKind))
	}
	fail()
	r.one(id, "it has failed")
	rollBack(task.StateRollbackFailed)
	require.Empty(t, r.dead(deadKind), "that it is rolled back later is no second failure")
	rollBack(task.StateRolledBack)
	require.Empty(t, r.dead(deadKind))
	for way, again := range r.retries() {
		_, err := again(r.ctx, id, "alice")
		require.NoError(t, err)
		require.Empty(t, r.dead(deadKind), way)
		fail()
		r.one(id, way+": it has failed again")
	}
	_, err := r.Retry(r.ctx, id, "alice")
	require.NoError(t, err)
	r.settled(finish(r.mournedRow(task.Run)))
	require.Empty(t, r.dead(deadKind), "it has succeeded this time")
	rollBack(task.StateRollbackFailed)
	_, said := r.one(id, "and could not be rolled back")
	require.Equal(t, "succeeded", said["outcome"])
	require.Equal(t, "it broke", said["rollback_error"])
	require.Nil(t, said["error"])
	rollBack(task.StateRollbackFailed)
	require.Empty(t, r.dead(deadKind), "one until it is retried")
}

func onFailedChain(t testing.TB, h Harness) {
	r := newOnFailedRig(t, h)
	for _, first := range []task.State{task.StateFailed, task.StateSucceeded} {
		r.insert(1)
		r.settled(mourn(r.mournedRow(task.Run), task.Failed, task.StateFailed, deadKind))
		claim := func(phase task.Phase) task.Task {
			w := under(mourned(), 1)
			w.Type, w.Phase = deadKind, phase
			rows := r.claim(w)
			require.Len(t, rows, 1)
			return rows[0]
		}
		letter := claim(task.Run)
		r.settled(mourn(letter, verdictFor(first), first, "suite.dead.too"))
		for _, s := range []task.State{task.StateRollbackFailed, task.StateRolledBack} {
			_, err := r.Rollback(r.ctx, letter.ID, "alice")
			require.NoError(t, err)
			r.settled(mourn(claim(task.Rollback), verdictFor(s), s, "suite.dead.too"))
		}
		_, err := r.Retry(r.ctx, letter.ID, "alice")
		require.NoError(t, err)
		r.settled(mourn(claim(task.Run), task.Failed, task.StateFailed, "suite.dead.too"))
		require.Empty(t, r.dead("suite.dead.too"))
		require.Empty(t, r.dead(deadKind))
	}
}

func onFailedDue(t testing.TB, h Harness) {
	r := newOnFailedRig(t, h)
	r.insert(1)
	row := r.mournedRow(task.Run)
	e := mourn(row, task.TimedOut, task.StateFailed, deadKind)
	e.Next.AfterLease = true
	r.settled(e)
	require.Empty(t, r.dead(deadKind), "something of the task may be at work")
	r.Advance(t, mourned().Window(task.Run)+time.Minute)
	got := r.dead(deadKind)
	require.Len(t, got, 1)
	near(t, got[0].CreatedAt.Add(row.LeaseEnd.Sub(row.ClaimedAt)), got[0].RunAt)
}

func onFailedData(t testing.TB, h Harness) {
	r := newOnFailedRig(t, h)
	for name, text := range map[string]string{
		"as large as it may be": `"` + strings.Repeat("x", 1<<20-100) + `"`,
		"nested":                strings.Repeat("[", 900) + strings.Repeat("]", 900),
		"null":                  `null`, "a number": `12345678901234567890.5`, "text": `"☃\u0001"`,
	} {
		id := r.Insert(t, store.EnqueueRequest{Type: kind, Payload: raw(text)})[0]
		r.settled(mourn(r.mournedRow(task.Run), task.Failed, task.StateFailed, deadKind))
		row, _ := r.one(id, name)
		var said struct{ Data json.RawMessage }
		require.NoError(t, json.Unmarshal(row.Payload, &said))
		sameJSON(t, text, said.Data, "%s", name)
	}
}

func onFailedLost(t testing.TB, h Harness) {
	r := newOnFailedRig(t, h)
	r.insert(1)
	row := r.mournedRow(task.Run)
	stale := row
	stale.Fence--
	require.Equal(t, []store.Answer{store.Lost}, r.settle(mourn(stale, task.Failed, task.StateFailed, deadKind)))
	twice := mourn(row, task.Failed, task.StateFailed, deadKind)
	require.Equal(t, []store.Answer{store.Applied, store.Ended}, r.settle(twice, twice))
	r.one(row.ID, "once")
	require.Equal(t, []store.Answer{store.Lost}, r.settle(mourn(stale, task.Failed, task.StateFailed, deadKind)))
	require.Empty(t, r.dead(deadKind))
}

func onFailedCrash(t testing.TB, h Harness) {
	r := newOnFailedRig(t, h)
	for _, point := range r.Failpoints() {
		r.insert(3)
		rows := r.claim(under(mourned(), 3))
		require.Len(t, rows, 3)
		ends := []store.Settlement{
			finish(rows[0]), mourn(rows[1], task.Failed, task.StateFailed, deadKind), mourn(rows[2], task.Lost, task.StateFailed, deadKind),
		}
		hit := r.crash(point)
		_, err := r.Settle(r.ctx, r.session, ends)
		require.ErrorIs(t, err, errCrash, "%q", point)
		require.True(t, hit(), "%q was not come by", point)
		r.Fail(nil)
		r.settle(ends...)
		require.Equal(t, same(store.Ended, 3), r.settle(ends...), "%q", point)
		require.Len(t, r.dead(deadKind), 2, "%q", point)
	}
}

func onFailedWakes(t testing.TB, h Harness) {
	r := newOnFailedRig(t, h)
	wakes, stop := r.rig.listen()
	defer stop()
	o := r.twin()
	require.NoError(t, r.Idle(r.ctx, r.session, true))
	for range 2 { // a wake when the listening begins is allowed, and is not enough
		woken := false
		for try := 0; try < 10 && !woken; try++ { // the first may come before the listening has begun
			row := o.heldUnder(mourned())
			select { // that of its own INSERT
			case <-wakes:
			case <-time.After(100 * time.Millisecond):
			}
			o.settled(mourn(row, task.Failed, task.StateFailed, deadKind))
			select {
			case <-wakes:
				woken = true
			case <-time.After(time.Second):
			}
		}
		require.True(t, woken)
	}
	require.NoError(t, r.Idle(r.ctx, r.session, false))
}
