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
	sizes "github.com/leasehold/leasehold/test/harness"
)

// waitRace is a row that runs, and one that waits for it, whose transactions meet.
type waitRace struct {
	t *testing.T
	*agentOn
	first  task.Task
	second task.ID
}

// act is one transaction. It does its part, and commits when commit is closed.
type act struct {
	name string
	do   func(r *waitRace, commit <-chan struct{}) error
}

// inSQL is a transaction with one statement.
func inSQL(name, text string, args func(r *waitRace) []any) act {
	return act{name, func(r *waitRace, commit <-chan struct{}) error {
		conn, err := pgx.Connect(r.t.Context(), pgtest.URL(r.t))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(r.t.Context()) }()
		return pgx.BeginFunc(r.t.Context(), conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(r.t.Context(), r.q(text), args(r)...); err != nil {
				return err
			}
			<-commit
			return nil
		})
	}}
}

// settles is a settlement that stops before each of its commits.
func settles(name string, end func(task.Task) store.Settlement) act {
	return act{name, func(r *waitRace, commit <-chan struct{}) error {
		s := openStore(r.t, postgres.Options{Schema: r.schema, Fail: func(point string) error {
			if point == "before the commit" {
				<-commit
			}
			return nil
		}})
		for {
			got, err := s.Settle(r.t.Context(), r.session, []store.Settlement{end(r.first)})
			if err != nil || got[0] != store.Busy {
				return err
			}
		}
	}}
}

func failedFor(row task.Task) store.Settlement {
	end := done(row)
	end.Next.State, end.Outcome.Verdict = task.StateFailed, task.Failed
	return end
}

func waitActs() []act {
	first := func(r *waitRace) []any { return []any{int64(r.first.ID)} }
	second := func(r *waitRace) []any { return []any{int64(r.second)} }
	return []act{
		inSQL("insert", `INSERT INTO SCHEMA.task (type, after) VALUES ('a', ARRAY[$1::bigint])`, first),
		inSQL("step", `SELECT SCHEMA.unblock(100)`, func(*waitRace) []any { return nil }),
		inSQL("complete", `SELECT SCHEMA.take_complete($1, $2, true, NULL)`, func(r *waitRace) []any {
			return []any{int64(r.first.ID), int64(r.first.Fence)}
		}),
		settles("succeed", done),
		settles("fail", failedFor),
		inSQL("cancel", `SELECT SCHEMA.cancel($1)`, second),
		inSQL("retry the first", `SELECT SCHEMA.retry($1)`, first),
		inSQL("retry the second", `SELECT SCHEMA.retry($1)`, second),
		inSQL("hold", `SELECT FROM SCHEMA.task WHERE id = $1 FOR KEY SHARE`, first),
	}
}

// TestWaitingRowsMeet has each two of the transactions meet that concern a row which waits, after each number of steps, with the first row
// running and with it ended but not seen. In the end no row waits for ever, and none has started before the other ended.
func TestWaitingRowsMeet(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		for steps := range 4 {
			if steps != sizes.Sized(map[bool]int{false: 1, true: 2}[ended], steps) {
				continue
			}
			h := newHarness(t)
			a := joined(t, h)
			for i, one := range waitActs() {
				for j, other := range waitActs() {
					if (i+j+steps)%sizes.Sized(3, 1) != 0 {
						continue
					}
					name := fmt.Sprintf("%s meets %s after %d steps, ended: %t", other.name, one.name, steps, ended)
					r := &waitRace{t: t, agentOn: a}
					r.meet(name, one, other, steps, ended)
				}
			}
		}
	}
}

func (r *waitRace) meet(name string, one, other act, steps int, ended bool) {
	r.t.Helper()
	id := r.Insert(r.t, store.EnqueueRequest{Type: "a"})[0]
	rows := r.claim(r.t, 5)
	require.Len(r.t, rows, 1, name)
	require.Equal(r.t, id, rows[0].ID, name)
	r.first = rows[0]
	r.second = r.Insert(r.t, store.EnqueueRequest{Type: "a", After: []task.ID{id}})[0]
	for range steps {
		_, err := r.Unblock(r.t.Context(), 100)
		require.NoError(r.t, err)
	}
	if ended {
		r.settle(r.t, failedFor(r.first))
	}
	begin := func(a act) (commit chan struct{}, over chan struct{}) {
		commit, over = make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			_ = a.do(r, commit) // that it is refused is as well
		}()
		return commit, over
	}
	commit, over := begin(one)
	settled(over)
	last, lastOver := begin(other)
	settled(lastOver)
	close(commit)
	settled(over) // it may have to wait for the other
	close(last)
	<-over
	<-lastOver
	r.ends(name)
}

// settled waits until a transaction has done its part, as far as others let it.
func settled(over <-chan struct{}) {
	select {
	case <-over:
	case <-time.After(15 * time.Millisecond):
	}
}

// ends runs all that there is.
func (r *waitRace) ends(name string) {
	r.t.Helper()
	for range 20 {
		for number := int64(1); number <= r.claims; number++ {
			rows, err := r.Claimed(r.t.Context(), r.session, number)
			require.NoError(r.t, err)
			for _, row := range rows {
				if row.ID != r.first.ID {
					require.Zero(r.t, r.number(r.t, `SELECT count(*) FROM SCHEMA.task WHERE id = $1`, int64(r.first.ID)), "%s: task %d runs too early", name, row.ID)
				}
				r.settle(r.t, done(row))
			}
		}
		for range 10 {
			u, err := r.Unblock(r.t.Context(), 100)
			require.NoError(r.t, err)
			if u.Worked == 0 && !u.Missed {
				break
			}
		}
		if len(r.claim(r.t, 5)) == 0 && r.number(r.t, `SELECT count(*) FROM SCHEMA.task`) == 0 {
			for _, table := range []string{"dependent", "dependency", "ended_note"} {
				require.Zero(r.t, r.number(r.t, `SELECT count(*) FROM SCHEMA.`+table), "%s: rows of %s", name, table)
			}
			return
		}
	}
	require.Fail(r.t, "rows wait for ever", name)
}

// TestWhatOthersFreeIsMissed: a step that finds all locked by another says so, at each stage.
func TestWhatOthersFreeIsMissed(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	first := a.take(t, 1)[0]
	a.Insert(t, store.EnqueueRequest{Type: "a", After: []task.ID{first.ID}})
	meets := func() {
		tx, err := pgtest.Connect(t).Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), a.q(`SELECT SCHEMA.unblock(100)`))
		require.NoError(t, err)
		u, err := a.Unblock(t.Context(), 100)
		require.NoError(t, err)
		require.Equal(t, store.Unblocked{Missed: true, Waiting: true}, u)
		require.NoError(t, tx.Commit(t.Context()))
	}
	meets() // looks
	meets() // and once more
	u, err := a.Unblock(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, store.Unblocked{Waiting: true}, u)
	a.settle(t, done(first))
	meets() // counts the end, and frees
	require.Len(t, a.claim(t, 1), 1)
	u, err = a.Unblock(t.Context(), 100)
	require.NoError(t, err)
	require.Zero(t, u)
}
