package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/task"
)

// passing is a claim of up to n rows that passes on first.
func (a *agentOn) passing(n int) store.Claim {
	a.claims++
	return store.Claim{Session: a.session, Number: a.claims, Wants: []store.Want{wantOf(n)}, Pass: &store.Pass{Most: 100}}
}

// passStops has the second agent pass on, and start rows, in a transaction that does not commit yet.
func (m *meeting) passStops(n int) (finish func() []task.ID) {
	m.t.Helper()
	var rows []task.Task
	c := m.second.passing(n)
	commit := m.stops(0, func(s *postgres.Store) (err error) {
		rows, err = s.Claim(m.t.Context(), c)
		return err
	})
	return func() []task.ID {
		m.t.Helper()
		commit()
		return idsOf(rows)
	}
}

// TestClaimsThatPassOnMeet has claims that pass on a lock, or a turn, meet others.
func TestClaimsThatPassOnMeet(t *testing.T) {
	for name, meet := range map[string]func(t *testing.T, m *meeting, add func(n int) []task.ID) (rows int){
		"a claim":                             passMeetsClaim,
		"another that passes on":              passMeetsPass,
		"a promotion":                         passMeetsPromotion,
		"the settlement of what it starts":    passMeetsSettlement,
		"a cancellation of what is next":      passMeetsCancel,
		"its own failure":                     passFails,
		"a crash after it has passed on":      passIsLost,
		"a candidate that comes before":       passMeetsCandidate,
		"candidates for which there is room":  passMeetsCandidates,
		"a limit that it does not know of":    passMeetsLimit,
		"rows of which another is kept first": passMeetsKept,
		"rows that claims start":              passMeetsOthers,
	} {
		t.Run("locks: "+name, func(t *testing.T) {
			t.Parallel()
			m := newMeeting(t)
			m.ends(meet(t, m, m.add))
		})
		t.Run("turns: "+name, func(t *testing.T) {
			t.Parallel()
			m := &turnMeeting{newMeeting(t)}
			m.ends(meet(t, m.meeting, m.add))
		})
	}
}

// runs asserts which row runs.
func (m *meeting) runs(id task.ID) {
	m.t.Helper()
	require.EqualValues(m.t, id, m.number(m.t, `SELECT coalesce(min(id), 0) FROM SCHEMA.task WHERE state = 'running'`))
	require.LessOrEqual(m.t, m.number(m.t, `SELECT count(*) FROM SCHEMA.task WHERE state = 'running'`), int64(1))
}

// left has one row of n end that the others wait for.
func (m *meeting) left(add func(n int) []task.ID, n int) (ids []task.ID) {
	m.t.Helper()
	ids = add(n)
	rows := m.claim(m.t, n)
	require.Equal(m.t, ids[:1], idsOf(rows))
	m.settle(m.t, done(rows[0]))
	require.EqualValues(m.t, n-1, m.number(m.t, `SELECT count(*) FROM SCHEMA.task WHERE held IS NOT NULL`))
	return ids
}

func passMeetsClaim(t *testing.T, m *meeting, add func(n int) []task.ID) int {
	ids := m.left(add, 3)
	finish := m.passStops(5)
	add(1)
	var left bool
	c := m.passing(5)
	c.Pass, c.Left = nil, &left
	got, err := m.Claim(t.Context(), c)
	require.NoError(t, err)
	require.Empty(t, got)
	require.True(t, left)
	require.Equal(t, ids[1:2], finish())
	m.runs(ids[1])
	require.Empty(t, m.claim(t, 5))
	return 4
}

func passMeetsPass(t *testing.T, m *meeting, add func(n int) []task.ID) int {
	ids := m.left(add, 3)
	finish := m.passStops(5)
	c := m.passing(5)
	got, err := m.Claim(t.Context(), c)
	require.NoError(t, err)
	require.Empty(t, got)
	require.Zero(t, c.Pass.Promoted)
	require.Equal(t, ids[1:2], finish())
	m.runs(ids[1])
	return 3
}

func passMeetsPromotion(t *testing.T, m *meeting, add func(n int) []task.ID) int {
	ids := m.left(add, 3)
	finish := m.promoteStops()
	got, err := m.Claim(t.Context(), m.passing(5))
	require.NoError(t, err)
	require.Empty(t, got)
	finish()
	got, err = m.Claim(t.Context(), m.passing(5))
	require.NoError(t, err)
	require.Equal(t, ids[1:2], idsOf(got))
	m.runs(ids[1])
	return 3
}

// passMeetsSettlement settles a row that was started before the claim that has started it ends.
func passMeetsSettlement(t *testing.T, m *meeting, add func(n int) []task.ID) int {
	ids := m.left(add, 3)
	c := m.second.passing(5)
	finish := m.stops(1, func(s *postgres.Store) error {
		_, err := s.Claim(t.Context(), c)
		return err
	})
	m.runs(ids[1])
	rows, err := m.Claimed(t.Context(), m.second.session, c.Number)
	require.NoError(t, err)
	m.second.settle(t, done(rows[0]))
	finish()
	m.promotes(1, false)
	return 3
}

func passMeetsCancel(t *testing.T, m *meeting, add func(n int) []task.ID) int {
	ids := m.left(add, 2)
	app := m.Begin(t)
	_, err := app.Cancel(t.Context(), ids[1], "alice")
	require.NoError(t, err)
	c := m.passing(5)
	got, err := m.Claim(t.Context(), c)
	require.NoError(t, err)
	require.Empty(t, got)
	require.True(t, c.Pass.Promoted.Missed)
	require.NoError(t, app.Rollback(t.Context()))
	got, err = m.Claim(t.Context(), m.passing(5))
	require.NoError(t, err)
	require.Equal(t, ids[1:2], idsOf(got))
	return 2
}

var errCrash = errors.New("crash made by the test")

// crashing claims, passing on first, by a store that crashes at a point.
func (m *meeting) crashing(point string, n int) store.Claim {
	m.t.Helper()
	s := openStore(m.t, postgres.Options{Schema: m.schema, Fail: func(at string) error {
		if at == point {
			return errCrash
		}
		return nil
	}})
	c := m.second.passing(n)
	_, err := s.Claim(m.t.Context(), c)
	require.ErrorIs(m.t, err, errCrash)
	return c
}

func passFails(t *testing.T, m *meeting, add func(n int) []task.ID) int {
	ids := m.left(add, 3)
	m.crashing("before the commit", 5)
	m.runs(0)
	require.EqualValues(t, 2, m.number(t, `SELECT count(*) FROM SCHEMA.task WHERE held IS NOT NULL`))
	got, err := m.Claim(t.Context(), m.passing(5))
	require.NoError(t, err)
	require.Equal(t, ids[1:2], idsOf(got))
	return 3
}

func passIsLost(t *testing.T, m *meeting, add func(n int) []task.ID) int {
	ids := m.left(add, 3)
	c := m.crashing("after the commit", 5)
	m.runs(ids[1])
	rows, err := m.Claimed(t.Context(), m.second.session, c.Number)
	require.NoError(t, err)
	require.Equal(t, ids[1:2], idsOf(rows))
	return 3
}

func passMeetsCandidate(t *testing.T, m *meeting, add func(n int) []task.ID) int {
	ids := m.left(add, 2)
	first := m.Insert(t, store.EnqueueRequest{Type: "a", Priority: 1})
	got, err := m.Claim(t.Context(), m.passing(1))
	require.NoError(t, err)
	require.Equal(t, first, idsOf(got))
	m.settle(t, failed(got[0]))
	require.Equal(t, ids[1:], idsOf(m.claim(t, 1)))
	return 2
}

// passMeetsCandidates has a row start at once behind candidates, where the claim takes them as well, and not else.
func passMeetsCandidates(t *testing.T, m *meeting, add func(n int) []task.ID) int {
	for _, c := range []struct{ n, started int64 }{{2, 0}, {3, 1}} {
		ids := m.left(add, 2)
		before := m.Insert(t, store.EnqueueRequest{Type: "a", Priority: 2}, store.EnqueueRequest{Type: "a", Priority: 1})
		var got []task.Task
		finish := m.stops(1, func(s *postgres.Store) (err error) {
			got, err = s.Claim(t.Context(), m.passing(int(c.n)))
			return err
		})
		running := m.number(t, `SELECT count(*) FROM SCHEMA.task WHERE state = 'running'`)
		finish()
		require.Equal(t, c.started, running, "of %d", c.n)
		require.Equal(t, append(before, ids[1:]...)[:c.n], idsOf(got))
		for _, row := range append(got, m.claim(t, 5)...) {
			if row.ID == ids[1] {
				m.settle(t, done(row))
			} else {
				m.settle(t, failed(row))
			}
		}
	}
	return 4
}

// passMeetsLimit declares a limit that the claiming agent has not heard of.
func passMeetsLimit(t *testing.T, m *meeting, add func(n int) []task.ID) int {
	m.left(add, 2)
	m.exec(t, `INSERT INTO SCHEMA.type_limit (type, name, declared, rate, most, burst) VALUES ('a', 'a', 1, 0, 1, 1)`)
	got, err := m.Claim(t.Context(), m.passing(5))
	require.NoError(t, err)
	require.Empty(t, got)
	m.exec(t, `DELETE FROM SCHEMA.type_limit`)
	return 2
}

// passMeetsKept has an application keep the row that is next: of a lock, the one behind it starts.
func passMeetsKept(t *testing.T, m *meeting, add func(n int) []task.ID) int {
	m.left(add, 3)
	app := m.Begin(t)
	_, err := app.Cancel(t.Context(), task.ID(m.number(t, `SELECT min(id) FROM SCHEMA.task`)), "alice")
	require.NoError(t, err)
	got, err := m.Claim(t.Context(), m.passing(5))
	require.NoError(t, err)
	require.LessOrEqual(t, len(got), 1)
	require.NoError(t, app.Rollback(t.Context()))
	return 3
}

// passMeetsOthers has claims start what a promotion must not: which tenant's turn it is, and whether a batch is being stopped, only they know.
func passMeetsOthers(t *testing.T, m *meeting, add func(n int) []task.ID) int {
	ids := m.left(add, 2)
	m.exec(t, `UPDATE SCHEMA.task SET tenant = 't' WHERE id = `+fmt.Sprint(ids[1]))
	c := m.second.passing(5)
	finish := m.stops(1, func(s *postgres.Store) error {
		_, err := s.Claim(t.Context(), c)
		return err
	})
	running := m.number(t, `SELECT count(*) FROM SCHEMA.task WHERE state = 'running'`)
	finish()
	require.Zero(t, running)
	return 2
}
