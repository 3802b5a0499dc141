package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// turnMeeting is two or three transactions about rows of the sequence x.
type turnMeeting struct{ *meeting }

func (m *turnMeeting) add(n int) (ids []task.ID) {
	m.t.Helper()
	for range n {
		ids = append(ids, m.Insert(m.t, store.EnqueueRequest{Type: "a", Sequence: "x"})...)
	}
	return ids
}

// failed is a settlement of a row that has failed for good.
func failed(row task.Task) store.Settlement {
	e := done(row)
	e.Next.State, e.Outcome = task.StateFailed, task.Outcome{Verdict: task.Failed, Error: "it broke"}
	return e
}

// settleStops has the first agent settle in a transaction that does not commit yet.
func (m *turnMeeting) settleStops(e store.Settlement) (finish func()) {
	m.t.Helper()
	return m.stops(0, func(s *postgres.Store) error {
		_, err := s.Settle(m.t.Context(), m.session, []store.Settlement{e})
		return err
	})
}

// ends settles what runs and claims what waits, until n rows of the sequence have succeeded: none waits for ever, and their order is that of
// their ids but for those that come late.
func (m *turnMeeting) ends(n int, late ...task.ID) {
	m.t.Helper()
	for range 4 * (n + 1) {
		require.LessOrEqual(m.t, m.number(m.t, `SELECT count(*) FROM SCHEMA.task WHERE sequence = 'x' AND state = 'running'`), int64(1))
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
	require.Zero(m.t, m.number(m.t, `SELECT count(*) FROM SCHEMA.task WHERE sequence = 'x'`), "rows that wait for ever")
	m.promotes(0, false)
	require.EqualValues(m.t, n, m.number(m.t, `SELECT count(*) FROM SCHEMA.task_archive WHERE state = 'succeeded'`))
	require.Zero(m.t, m.number(m.t, `SELECT count(*) FROM (
		SELECT id < lag(id) OVER (ORDER BY finished_at, id) AS earlier FROM SCHEMA.task_archive
		WHERE state = 'succeeded' AND round IS NULL AND id <> ALL ($1)) AS o WHERE o.earlier`, int64s(late)), "out of order")
	require.Zero(m.t, m.number(m.t, `SELECT count(*) FROM SCHEMA.sequence_holder AS h WHERE NOT EXISTS (
		SELECT FROM SCHEMA.sequence_failure AS f WHERE f.name = h.name)`), "sequences that are left")
}

func int64s(ids []task.ID) []int64 {
	all := make([]int64, len(ids))
	for i, id := range ids {
		all[i] = int64(id)
	}
	return all
}

// TestSequencesMeet has claims, settlements, promotions, and transactions of applications and operators meet in each order that matters.
func TestSequencesMeet(t *testing.T) {
	for name, meet := range map[string]func(t *testing.T, m *turnMeeting){
		"a claim and one of later rows":                    turnClaimMeetsClaim,
		"a settlement and a claim that looks before it":    turnSettleMeetsClaim,
		"a claim that has looked, and a settlement":        turnClaimMeetsSettle,
		"a claim of a new sequence and a promotion":        turnNewMeetsPromotion,
		"a promotion and a claim":                          turnPromotionMeetsClaim,
		"a claim that takes a turn over, and a promotion":  turnTakeoverMeetsPromotion,
		"two promotions":                                   turnPromotionMeetsPromotion,
		"inserts that commit after the end":                turnInsertMeetsEnd,
		"a lower id that commits late":                     turnLateCommit,
		"a lower id that commits while its failure blocks": turnLateBeforeFailure,
		"a completion by an application":                   turnCompletionMeetsClaim,
		"a cancellation of the next by an application":     turnCancelMeetsPromotion,
		"a cancellation that is taken back":                turnCancelTakenBack,
		"a failure and a claim that looks before it":       turnFailureMeetsClaim,
		"a retry and a promotion":                          turnRetryMeetsPromotion,
		"a retry while another has its turn":               turnRetryMeetsHead,
		"a retry of what ends just before it is looked at": turnRetryBeforePromotion,
		"two skips":                                      turnSkipMeetsSkip,
		"a new sequence and a skip":                      turnNewMeetsSkip,
		"a new sequence and a replacement":               turnNewMeetsReplace,
		"a skip and a promotion":                         turnSkipMeetsPromotion,
		"a claim that fails after it has chosen":         turnClaimFails,
		"a rule that changes while a failure is written": turnRuleMeetsFailure,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meet(t, &turnMeeting{newMeeting(t)})
		})
	}
}

func turnClaimMeetsClaim(t *testing.T, m *turnMeeting) {
	m.add(2)
	finish := m.claimStops(5)
	m.add(1)
	var got []task.Task
	require.NoError(t, waits(t, m.harness, func() { require.Len(t, finish(), 1) }, func() (err error) {
		m.claims++
		got, err = m.Claim(t.Context(), store.Claim{Session: m.session, Number: m.claims, Wants: []store.Want{wantOf(5)}})
		return err
	}), "for as long as the other claim takes")
	require.Empty(t, got)
	m.ends(3)
}

func turnSettleMeetsClaim(t *testing.T, m *turnMeeting) {
	m.add(2)
	finish := m.settleStops(done(m.claim(t, 1)[0]))
	require.Empty(t, m.second.claim(t, 5), "the one before has not ended")
	m.promotes(0, false)
	finish()
	m.promotes(1, false)
	m.ends(2)
}

func turnClaimMeetsSettle(t *testing.T, m *turnMeeting) {
	m.add(2)
	row := m.claim(t, 1)[0]
	finish := m.claimStops(5)
	m.settle(t, done(row))
	m.promotes(0, true)
	require.Empty(t, m.claim(t, 5), "what the claim has picked is locked")
	require.Empty(t, finish(), "it had looked before the settlement")
	m.promotes(1, false)
	m.ends(2)
}

func turnNewMeetsPromotion(t *testing.T, m *turnMeeting) {
	ids := m.add(3)
	finish := m.claimStops(2)
	_, err := m.Cancel(t.Context(), ids[2], "") // which leaves a note
	require.NoError(t, err)
	m.promotes(0, true) // the claim that makes the sequence has not committed yet
	require.Equal(t, ids[:1], finish())
	m.ends(2)
}

// The claim that makes a sequence holds a row back for a reason that is over when it commits.
func turnNewMeetsSkip(t *testing.T, m *turnMeeting) {
	first := m.Insert(t, store.EnqueueRequest{Type: "a", Sequence: "x", RunAt: time.Now().Add(24 * time.Hour)})[0]
	m.add(1)
	finish := m.claimStops(5)
	_, err := m.Cancel(t.Context(), first, "")
	require.NoError(t, err)
	_, err = m.SkipSequence(t.Context(), "a", "x", first, "")
	require.NoError(t, err)
	m.promotes(0, true)
	require.Empty(t, finish())
	m.ends(1)
}

// The same, where the first row goes to another sequence.
func turnNewMeetsReplace(t *testing.T, m *turnMeeting) {
	q := store.EnqueueRequest{Type: "a", Sequence: "x", Key: "k", RunAt: time.Now().Add(24 * time.Hour)}
	m.Insert(t, q)
	m.add(1)
	finish := m.claimStops(5)
	q.Sequence, q.OnLive = "y", store.OnLiveReplace
	_, _, err := m.Enqueue(t.Context(), q)
	require.NoError(t, err)
	m.promotes(0, true)
	require.Empty(t, finish())
	m.ends(1)
}

func turnPromotionMeetsClaim(t *testing.T, m *turnMeeting) {
	m.add(2)
	m.settle(t, done(m.claim(t, 2)[0]))
	finish := m.stops(0, func(s *postgres.Store) error {
		_, err := s.Promote(t.Context(), 100)
		return err
	})
	m.add(1)
	var left bool
	m.claims++
	got, err := m.Claim(t.Context(), store.Claim{
		Session: m.session, Number: m.claims, Wants: []store.Want{wantOf(5)}, Left: &left,
	})
	require.NoError(t, err)
	require.Empty(t, got)
	require.True(t, left, "another is passing the turn on")
	finish()
	require.Len(t, m.second.claim(t, 5), 1)
	require.Empty(t, m.claim(t, 5))
	m.ends(3)
}

func turnTakeoverMeetsPromotion(t *testing.T, m *turnMeeting) {
	ids := m.add(2)
	m.settle(t, done(m.claim(t, 5)[0]))
	m.add(1)
	finish := m.claimStops(5) // it meets the third, and chooses the second
	m.promotes(0, true)
	require.Empty(t, finish())
	m.promotes(0, false)
	require.Equal(t, ids[1:], idsOf(m.claim(t, 5)))
	m.ends(3)
}

func turnPromotionMeetsPromotion(t *testing.T, m *turnMeeting) {
	m.add(3)
	m.settle(t, done(m.claim(t, 3)[0]))
	finish := m.promoteStops()
	p, err := m.Promote(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, store.Promoted{Missed: true}, p, "the other has the note")
	finish()
	require.EqualValues(t, 1, m.number(t, `SELECT count(*) FROM SCHEMA.task WHERE held IS NOT NULL`))
	m.ends(3)
}

func turnInsertMeetsEnd(t *testing.T, m *turnMeeting) {
	m.add(1)
	row := m.claim(t, 1)[0]
	tx, err := pgtest.ConnectTo(t, m.asApp).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), m.q(`INSERT INTO SCHEMA.task (type, sequence) VALUES ('a', 'x'), ('a', 'x')`))
	require.NoError(t, err)
	m.settle(t, done(row))
	m.promotes(0, false)
	require.NoError(t, tx.Commit(t.Context()))
	m.ends(3)
}

// late inserts a row in a transaction that does not commit yet.
func (m *turnMeeting) late() (id task.ID, commit func()) {
	m.t.Helper()
	app := m.Produce(m.t)
	ids, err := app.Insert(m.t.Context(), store.EnqueueRequest{Type: "a", Sequence: "x"})
	require.NoError(m.t, err)
	return ids[0], func() { require.NoError(m.t, app.Commit(m.t.Context())) }
}

func turnLateCommit(t *testing.T, m *turnMeeting) {
	low, commit := m.late()
	ids := m.add(3)
	row := m.claim(t, 5)[0]
	require.Equal(t, ids[0], row.ID)
	finish := m.settleStops(done(row))
	commit()
	require.Empty(t, m.second.claim(t, 5), "another has its turn")
	finish()
	m.promotes(1, false)
	require.Equal(t, []task.ID{low}, idsOf(m.claim(t, 5)))
	m.ends(4, low)
}

func turnLateBeforeFailure(t *testing.T, m *turnMeeting) {
	low, commit := m.late()
	ids := m.add(2)
	m.settle(t, failed(m.claim(t, 5)[0]))
	m.promotes(0, false)
	require.Empty(t, m.claim(t, 5), "it is blocked")
	commit()
	require.Equal(t, []task.ID{low}, idsOf(m.claim(t, 5)), "it comes before the failure")
	m.settle(t, done(m.claimed(low)))
	m.promotes(0, false)
	require.Empty(t, m.claim(t, 5), "it is blocked again")
	id, err := m.SkipSequence(t.Context(), "a", "x", 0, "")
	require.NoError(t, err)
	require.Equal(t, ids[0], id)
	m.ends(2, low)
}

// claimed returns a row that the first agent has claimed.
func (m *turnMeeting) claimed(id task.ID) (row task.Task) {
	m.t.Helper()
	for number := int64(1); number <= m.claims; number++ {
		rows, err := m.Claimed(m.t.Context(), m.session, number)
		require.NoError(m.t, err)
		for _, r := range rows {
			if r.ID == id {
				row = r
			}
		}
	}
	require.Equal(m.t, id, row.ID)
	return row
}

func turnCompletionMeetsClaim(t *testing.T, m *turnMeeting) {
	m.add(2)
	row := m.claim(t, 1)[0]
	app := m.Begin(t)
	require.NoError(t, app.Complete(t.Context(), row.ID, row.Fence, nil))
	require.Empty(t, m.second.claim(t, 5), "nothing has committed")
	m.promotes(0, false)
	require.NoError(t, app.Commit(t.Context()))
	m.promotes(1, false)
	m.ends(2)
}

func turnCancelMeetsPromotion(t *testing.T, m *turnMeeting) {
	ids := m.add(3)
	row := m.claim(t, 3)[0]
	app := m.Begin(t)
	_, err := app.Cancel(t.Context(), ids[1], "alice")
	require.NoError(t, err)
	m.settle(t, done(row))
	m.promotes(0, true) // it is next, and locked
	require.Empty(t, m.claim(t, 5))
	require.NoError(t, app.Commit(t.Context()))
	m.promotes(0, false)
	require.Empty(t, m.claim(t, 5), "a cancelled row blocks")
	_, err = m.SkipSequence(t.Context(), "a", "x", ids[1], "")
	require.NoError(t, err)
	m.promotes(1, false)
	m.ends(2)
}

func turnCancelTakenBack(t *testing.T, m *turnMeeting) {
	ids := m.add(2)
	row := m.claim(t, 3)[0]
	app := m.Begin(t)
	_, err := app.Cancel(t.Context(), ids[1], "alice")
	require.NoError(t, err)
	m.settle(t, done(row))
	third := m.add(1)
	require.Empty(t, m.claim(t, 5), "it meets the third, and cannot make the second a candidate")
	require.NoError(t, app.Rollback(t.Context()))
	m.promotes(1, false)
	require.Equal(t, ids[1:], idsOf(m.claim(t, 5)))
	require.EqualValues(t, 1, m.number(t, `SELECT count(*) FROM SCHEMA.task WHERE held = 'sequence' AND id = $1`, int64(third[0])))
	m.ends(3)
}

func turnFailureMeetsClaim(t *testing.T, m *turnMeeting) {
	ids := m.add(2)
	finish := m.settleStops(failed(m.claim(t, 1)[0]))
	require.Empty(t, m.second.claim(t, 5), "the one before has not ended")
	finish()
	m.promotes(0, false)
	require.Empty(t, m.claim(t, 5))
	_, err := m.SkipSequence(t.Context(), "a", "x", ids[0], "")
	require.NoError(t, err)
	m.ends(1)
}

// blocked makes a sequence of n rows of which the first has failed, and returns it.
func (m *turnMeeting) blocked(n int) task.ID {
	m.t.Helper()
	ids := m.add(n)
	m.settle(m.t, failed(m.claim(m.t, 5)[0]))
	m.promotes(0, false)
	return ids[0]
}

func turnRetryMeetsPromotion(t *testing.T, m *turnMeeting) {
	id := m.blocked(2)
	finish := m.stops(0, func(s *postgres.Store) error {
		_, err := s.RetrySequence(t.Context(), "a", "x", id, "")
		return err
	})
	m.add(1)
	require.Empty(t, m.claim(t, 5), "it is blocked until the retry commits")
	m.promotes(0, false)
	finish()
	require.Equal(t, []task.ID{id}, idsOf(m.claim(t, 5)))
	m.ends(3)
}

func turnRetryMeetsHead(t *testing.T, m *turnMeeting) {
	id := m.blocked(3)
	_, err := m.SkipSequence(t.Context(), "a", "x", id, "")
	require.NoError(t, err)
	m.promotes(1, false)
	require.Len(t, m.claim(t, 5), 1)
	_, err = m.Retry(t.Context(), id, "")
	require.NoError(t, err)
	require.Empty(t, m.second.claim(t, 5), "another has its turn")
	m.ends(3)
}

func turnRetryBeforePromotion(t *testing.T, m *turnMeeting) {
	ids := m.add(2)
	m.settle(t, failed(m.claim(t, 5)[0]))
	_, err := m.Retry(t.Context(), ids[0], "")
	require.NoError(t, err)
	finish := m.promoteStops()
	require.Empty(t, m.claim(t, 5), "another is passing the turn on")
	finish()
	require.Equal(t, ids[:1], idsOf(m.claim(t, 5)))
	m.ends(2)
}

func turnSkipMeetsSkip(t *testing.T, m *turnMeeting) {
	ids := m.add(3)
	m.settle(t, failed(m.claim(t, 5)[0]))
	_, err := m.Cancel(t.Context(), ids[1], "")
	require.NoError(t, err)
	m.promotes(0, false)
	finish := m.stops(0, func(s *postgres.Store) error {
		_, err := s.SkipSequence(t.Context(), "a", "x", 0, "")
		return err
	})
	err = waits(t, m.harness, finish, func() error {
		_, err := m.SkipSequence(t.Context(), "a", "x", 0, "")
		return err
	})
	var refused *store.RefusedError
	require.ErrorAs(t, err, &refused, "it did not mean the next failure")
	m.promotes(0, false)
	require.Empty(t, m.claim(t, 5))
	_, err = m.SkipSequence(t.Context(), "a", "x", ids[1], "")
	require.NoError(t, err)
	m.ends(1)
}

func turnSkipMeetsPromotion(t *testing.T, m *turnMeeting) {
	id := m.blocked(2)
	finish := m.stops(0, func(s *postgres.Store) error {
		_, err := s.SkipSequence(t.Context(), "a", "x", id, "")
		return err
	})
	m.add(1)
	require.Empty(t, m.claim(t, 5), "it is blocked until the skip commits")
	m.promotes(0, false)
	finish()
	m.promotes(1, false)
	m.ends(2)
}

func turnClaimFails(t *testing.T, m *turnMeeting) {
	m.add(2)
	broken := openStore(t, postgres.Options{Schema: m.schema, Fail: func(point string) error {
		if point == "before the commit" {
			return errors.New("crash made by the test")
		}
		return nil
	}})
	m.claims++
	_, err := broken.Claim(t.Context(), store.Claim{Session: m.session, Number: m.claims, Wants: []store.Want{wantOf(5)}})
	require.ErrorContains(t, err, "crash")
	require.Zero(t, m.number(t, `SELECT count(*) FROM SCHEMA.sequence_holder`))
	m.ends(2)
}

func turnRuleMeetsFailure(t *testing.T, m *turnMeeting) {
	m.add(2)
	finish := m.settleStops(failed(m.claim(t, 5)[0]))
	a := store.Agent{
		Name: "who continues", Workers: 1, Types: []string{"a"}, Presence: time.Hour,
		Sequences: []store.TypeSequence{{Type: "a", OnFailure: task.SequenceContinues}},
	}
	session, err := m.Join(t.Context(), a)
	require.NoError(t, err)
	finish()
	_, err = m.Present(t.Context(), store.Heartbeat{Session: session, Agent: a})
	require.NoError(t, err)
	m.ends(1)
}
