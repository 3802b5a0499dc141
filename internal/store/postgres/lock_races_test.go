package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// meeting is two or three transactions about rows with the lock x.
type meeting struct {
	t *testing.T
	*agentOn
	second *agentOn // whose claims and promotions can be made to stop before they commit
}

func newMeeting(t *testing.T) *meeting {
	t.Helper()
	a := joined(t, newHarness(t))
	return &meeting{t: t, agentOn: a, second: joined(t, a.harness)}
}

// add inserts n rows with the lock x.
func (m *meeting) add(n int) (ids []task.ID) {
	m.t.Helper()
	for range n {
		ids = append(ids, m.Insert(m.t, store.EnqueueRequest{Type: "a", Lock: "x"})...)
	}
	return ids
}

// stops has a call stop before it commits a statement, after so many others, and returns once it has. finish lets it commit, and waits
// for its end.
func (m *meeting) stops(after int, call func(s *postgres.Store) error) (finish func()) {
	m.t.Helper()
	reached, open, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	s := openStore(m.t, postgres.Options{Schema: m.schema, Fail: func(point string) error {
		if point == "before the commit" {
			if after--; after == -1 {
				close(reached)
				<-open
			}
		}
		return nil
	}})
	go func() { ended <- call(s) }()
	select {
	case <-reached:
	case err := <-ended:
		require.Fail(m.t, "it did not stop", err)
	case <-time.After(soon):
		require.Fail(m.t, "it does not get so far")
	}
	return func() {
		m.t.Helper()
		close(open)
		require.NoError(m.t, <-ended)
	}
}

// claimStops has the second agent claim up to n rows in a transaction that does not commit yet.
func (m *meeting) claimStops(n int) (finish func() []task.ID) {
	m.t.Helper()
	m.second.claims++
	number := m.second.claims
	var rows []task.Task
	commit := m.stops(0, func(s *postgres.Store) (err error) {
		rows, err = s.Claim(m.t.Context(), store.Claim{Session: m.second.session, Number: number, Wants: []store.Want{wantOf(n)}})
		return err
	})
	return func() []task.ID {
		m.t.Helper()
		commit()
		return idsOf(rows)
	}
}

func idsOf(rows []task.Task) []task.ID {
	ids := make([]task.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return ids
}

// settleStops has the first agent settle a row in a transaction that does not commit yet.
func (m *meeting) settleStops(row task.Task) (finish func()) {
	m.t.Helper()
	return m.stops(1, func(s *postgres.Store) error { // the first statement leaves rows with locks to the second
		_, err := s.Settle(m.t.Context(), m.session, []store.Settlement{done(row)})
		return err
	})
}

// promoteStops promotes in a transaction that does not commit yet.
func (m *meeting) promoteStops() (finish func()) {
	m.t.Helper()
	return m.stops(0, func(s *postgres.Store) error {
		_, err := s.Promote(m.t.Context(), 100)
		return err
	})
}

// promotes asserts what a promotion does.
func (m *meeting) promotes(rows int, missed bool) {
	m.t.Helper()
	p, err := m.Promote(m.t.Context(), 100)
	require.NoError(m.t, err)
	require.Equal(m.t, rows, p.Rows)
	require.Equal(m.t, missed, p.Missed)
}

// alone asserts that one row at most runs.
func (m *meeting) alone() {
	m.t.Helper()
	require.LessOrEqual(m.t, m.number(m.t, `SELECT count(*) FROM SCHEMA.task WHERE lock = 'x' AND state = 'running'`), int64(1))
}

// ends settles what runs and claims what waits, until n rows have ended: none waits for ever.
func (m *meeting) ends(n int) {
	m.t.Helper()
	const left = `SELECT count(*) FROM SCHEMA.task WHERE lock = 'x'`
	for range 4 * n {
		m.alone()
		for _, a := range []*agentOn{m.agentOn, m.second} {
			for number := int64(1); number <= a.claims; number++ {
				rows, err := a.Claimed(m.t.Context(), a.session, number)
				require.NoError(m.t, err)
				for _, row := range rows {
					a.settle(m.t, done(row))
				}
			}
		}
		_, err := m.Promote(m.t.Context(), 100)
		require.NoError(m.t, err)
		m.claim(m.t, 5)
	}
	require.Zero(m.t, m.number(m.t, left), "rows that wait for ever")
	m.promotes(0, false)
	require.Zero(m.t, m.number(m.t, `SELECT count(*) FROM SCHEMA.lock_holder`), "locks that are left")
	require.EqualValues(m.t, n, m.number(m.t, `SELECT count(*) FROM SCHEMA.task_archive WHERE state = 'succeeded'`))
}

// TestLocksMeet has claims, settlements, promotions and transactions of applications meet in each order that matters.
func TestLocksMeet(t *testing.T) {
	for name, meet := range map[string]func(t *testing.T, m *meeting) (rows int){
		"a claim and one of later rows":                    claimMeetsClaim,
		"a settlement and a claim that looks before it":    settleMeetsClaim,
		"a claim that has looked, and settlement":          claimMeetsSettle,
		"a claim of a new lock and a promotion":            newLockMeetsPromotion,
		"a promotion and a claim":                          promotionMeetsClaim,
		"a promotion and a claim of what it promotes":      promotionMeetsItsClaim,
		"two promotions":                                   promotionMeetsPromotion,
		"an insert that commits after the end":             insertMeetsEnd,
		"a completion by an application":                   completionMeetsClaim,
		"a cancellation of the next by an application":     cancelMeetsPromotion,
		"a cancellation of a row that waits for its lock":  cancelMeetsHeld,
		"a cancellation that is taken back":                cancelTakenBack,
		"a claim that fails after it has given the lock":   claimFails,
		"a claim that takes a lock over, and a promotion":  takeoverMeetsPromotion,
		"a claim that is repeated while the first commits": claimMeetsItsRepeat,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMeeting(t)
			rows := meet(t, m)
			m.ends(rows)
		})
	}
}

func claimMeetsClaim(t *testing.T, m *meeting) int {
	m.add(2)
	finish := m.claimStops(5)
	third := m.add(1)
	var got []task.Task
	var cut, left bool
	require.NoError(t, waits(t, m.harness, func() { require.Len(t, finish(), 1) }, func() (err error) {
		m.claims++
		got, err = m.Claim(t.Context(), store.Claim{
			Session: m.session, Number: m.claims, Wants: []store.Want{wantOf(5)}, Cut: &cut, Left: &left,
		})
		return err
	}), "for as long as the other claim takes")
	require.Empty(t, got)
	require.True(t, cut)
	require.False(t, left)
	require.EqualValues(t, 1, m.number(t, `SELECT count(*) FROM SCHEMA.task WHERE held IS NOT NULL AND id = $1`, int64(third[0])))
	return 3
}

func settleMeetsClaim(t *testing.T, m *meeting) int {
	m.add(2)
	row := m.claim(t, 1)[0]
	finish := m.settleStops(row)
	require.Empty(t, m.second.claim(t, 5), "the one before has not ended")
	m.promotes(0, false)
	finish()
	m.promotes(1, false)
	return 2
}

func claimMeetsSettle(t *testing.T, m *meeting) int {
	m.add(2)
	row := m.claim(t, 1)[0]
	finish := m.claimStops(5)
	m.settle(t, done(row))
	m.promotes(0, true)
	require.Empty(t, m.claim(t, 5), "what the claim has picked is locked")
	require.Empty(t, finish(), "it had looked before the settlement")
	m.promotes(1, false)
	return 2
}

func newLockMeetsPromotion(t *testing.T, m *meeting) int {
	ids := m.add(3)
	finish := m.claimStops(2)
	_, err := m.Cancel(t.Context(), ids[2], "") // a candidate that leaves a note
	require.NoError(t, err)
	m.promotes(0, false) // the lock is not to be seen yet
	require.Equal(t, ids[:1], finish())
	return 2
}

func promotionMeetsClaim(t *testing.T, m *meeting) int {
	m.add(2)
	row := m.claim(t, 2)[0]
	m.settle(t, done(row))
	finish := m.promoteStops()
	m.add(1)
	var left bool
	m.claims++
	got, err := m.Claim(t.Context(), store.Claim{
		Session: m.session, Number: m.claims, Wants: []store.Want{wantOf(5)}, Left: &left,
	})
	require.NoError(t, err)
	require.Empty(t, got)
	require.True(t, left, "another is passing the lock on")
	finish()
	require.Len(t, m.second.claim(t, 5), 1)
	require.Empty(t, m.claim(t, 5))
	return 3
}

func promotionMeetsItsClaim(t *testing.T, m *meeting) int {
	ids := m.add(3)
	row := m.claim(t, 3)[0]
	m.settle(t, done(row))
	finish := m.promoteStops()
	require.Empty(t, m.claim(t, 5), "it has not committed")
	finish()
	require.Equal(t, ids[1:2], idsOf(m.claim(t, 5)))
	m.alone()
	return 3
}

func promotionMeetsPromotion(t *testing.T, m *meeting) int {
	m.add(3)
	row := m.claim(t, 3)[0]
	m.settle(t, done(row))
	finish := m.promoteStops()
	p, err := m.Promote(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, store.Promoted{Missed: true}, p, "the other has the note")
	finish()
	require.EqualValues(t, 1, m.number(t, `SELECT count(*) FROM SCHEMA.task WHERE held IS NOT NULL`))
	return 3
}

func insertMeetsEnd(t *testing.T, m *meeting) int {
	m.add(1)
	row := m.claim(t, 1)[0]
	tx, err := pgtest.ConnectTo(t, m.asApp).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), m.q(`INSERT INTO SCHEMA.task (type, lock) VALUES ('a', 'x'), ('a', 'x')`))
	require.NoError(t, err)
	m.settle(t, done(row))
	m.promotes(0, false)
	require.NoError(t, tx.Commit(t.Context()))
	return 3
}

func completionMeetsClaim(t *testing.T, m *meeting) int {
	m.add(2)
	row := m.claim(t, 1)[0]
	app := m.Begin(t)
	require.NoError(t, app.Complete(t.Context(), row.ID, row.Fence, nil))
	require.Empty(t, m.second.claim(t, 5), "nothing has committed")
	m.promotes(0, false)
	require.NoError(t, app.Commit(t.Context()))
	m.promotes(1, false)
	return 2
}

func cancelMeetsPromotion(t *testing.T, m *meeting) int {
	ids := m.add(3)
	row := m.claim(t, 3)[0]
	m.settle(t, done(row))
	m.promotes(1, false)
	app := m.Begin(t)
	_, err := app.Cancel(t.Context(), ids[1], "alice")
	require.NoError(t, err)
	require.Empty(t, m.claim(t, 5))
	m.promotes(0, false)
	require.NoError(t, app.Commit(t.Context()))
	m.promotes(1, false)
	return 2
}

func cancelMeetsHeld(t *testing.T, m *meeting) int {
	ids := m.add(3)
	row := m.claim(t, 3)[0]
	app := m.Begin(t)
	_, err := app.Cancel(t.Context(), ids[1], "alice")
	require.NoError(t, err)
	m.settle(t, done(row))
	m.promotes(1, false)
	require.Equal(t, ids[2:], idsOf(m.claim(t, 5)), "the one behind it")
	require.NoError(t, app.Commit(t.Context()))
	return 2
}

func cancelTakenBack(t *testing.T, m *meeting) int {
	ids := m.add(2)
	row := m.claim(t, 2)[0]
	app := m.Begin(t)
	_, err := app.Cancel(t.Context(), ids[1], "alice")
	require.NoError(t, err)
	m.settle(t, done(row))
	m.promotes(0, true)
	m.promotes(0, true)
	require.NoError(t, app.Rollback(t.Context()))
	m.promotes(1, false)
	return 2
}

func claimFails(t *testing.T, m *meeting) int {
	m.add(2)
	s := openStore(t, postgres.Options{Schema: m.schema, Fail: func(point string) error {
		if point == "before the commit" {
			return fmt.Errorf("crash made by the test")
		}
		return nil
	}})
	_, err := s.Claim(t.Context(), store.Claim{Session: m.second.session, Number: 1, Wants: []store.Want{wantOf(5)}})
	require.ErrorContains(t, err, "crash")
	require.Zero(t, m.number(t, `SELECT count(*) FROM SCHEMA.lock_holder`))
	require.Zero(t, m.number(t, `SELECT count(*) FROM SCHEMA.task WHERE held IS NOT NULL`))
	return 2
}

func takeoverMeetsPromotion(t *testing.T, m *meeting) int {
	ids := m.add(2)
	row := m.claim(t, 2)[0]
	m.settle(t, done(row))
	late := m.add(1)
	finish := m.claimStops(5)
	m.promotes(0, true)
	require.Equal(t, late, finish())
	m.promotes(0, false)
	require.EqualValues(t, 1, m.number(t, `SELECT count(*) FROM SCHEMA.task WHERE held IS NOT NULL AND id = $1`, int64(ids[1])))
	return 3
}

// claimMeetsItsRepeat reads back a claim that has not committed: then it takes effect, and its row has the lock.
func claimMeetsItsRepeat(t *testing.T, m *meeting) int {
	ids := m.add(2)
	finish := m.claimStops(1)
	rows, err := m.Claimed(t.Context(), m.second.session, 1)
	require.NoError(t, err)
	require.Empty(t, rows)
	require.Equal(t, ids[:1], finish())
	require.Empty(t, m.claim(t, 5))
	return 2
}
