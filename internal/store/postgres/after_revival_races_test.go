package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
	sizes "github.com/leasehold/leasehold/test/harness"
)

// revival is one transaction that concerns a row which was or will be cancelled on account of another.
type revival struct {
	name      string
	isolation pgx.TxIsoLevel
	text      string
	of        int // of the two rows, the one that is the argument; -1: none
}

func revivals() []revival {
	return []revival{
		{"step", pgx.ReadCommitted, `SELECT SCHEMA.unblock(100)`, -1},
		{"retry the first", pgx.ReadCommitted, `SELECT SCHEMA.retry($1)`, 0},
		{"retry the first by an older snapshot", pgx.RepeatableRead, `SELECT SCHEMA.retry($1)`, 0},
		{"retry the second", pgx.ReadCommitted, `SELECT SCHEMA.retry($1)`, 1},
	}
}

// TestRevivalsMeet has each two of the transactions meet that cancel a row on account of another, retry that one, and revive the row: before
// the row is cancelled, then, and after the retry. In the end the other is retried, if it was not, and the row runs.
func TestRevivalsMeet(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a := joined(t, h)
	conns := [2]*pgx.Conn{pgtest.Connect(t), pgtest.Connect(t)}
	for _, state := range []string{"to be cancelled", "cancelled", "to be revived"} {
		for _, one := range revivals() {
			for _, other := range revivals() {
				if !strings.Contains(one.name+other.name, "step") && sizes.Sized(1, 0) > 0 {
					continue
				}
				r := &waitRace{t: t, agentOn: a}
				r.meetAt(conns, fmt.Sprintf("%s meets %s, the row is %s", other.name, one.name, state), state, one, other)
			}
		}
	}
}

func (r *waitRace) meetAt(conns [2]*pgx.Conn, name, state string, one, other revival) {
	r.t.Helper()
	first := r.Insert(r.t, store.EnqueueRequest{Type: "a"})[0]
	r.second = r.Insert(r.t, store.EnqueueRequest{Type: "a", After: []task.ID{first}})[0]
	r.unblocks()
	rows := r.claim(r.t, 5)
	require.Len(r.t, rows, 1, name)
	r.first = rows[0]
	r.settle(r.t, failedFor(r.first))
	if state != "to be cancelled" {
		r.unblocks()
	}
	if state == "to be revived" {
		_, err := r.Retry(r.t.Context(), first, "")
		require.NoError(r.t, err)
	}
	commit, over := r.begins(conns[0], one, true)
	last, lastOver := r.begins(conns[1], other, false)
	close(commit)
	<-over
	close(last)
	<-lastOver
	_, err := r.Retry(r.t.Context(), first, "") // unless it was
	require.NoError(r.t, err)
	r.unblocks()
	for _, want := range []task.ID{first, r.second} {
		rows := r.claim(r.t, 5)
		require.Len(r.t, rows, 1, name)
		require.Equal(r.t, want, rows[0].ID, name)
		r.settle(r.t, done(rows[0]))
		r.unblocks()
	}
	for _, table := range []string{"task", "dependent", "dependency", "ended_note", "revived_note"} {
		require.Zero(r.t, r.number(r.t, `SELECT count(*) FROM SCHEMA.`+table), "%s: rows of %s", name, table)
	}
}

// begins starts a transaction, and returns when it has done its part, or, unless it is the first, waits for another. It commits when
// commit is closed.
func (r *waitRace) begins(conn *pgx.Conn, v revival, isFirst bool) (commit, over chan struct{}) {
	commit, over = make(chan struct{}), make(chan struct{})
	began, did := make(chan struct{}), make(chan struct{})
	var args []any
	if v.of >= 0 {
		args = append(args, int64([]task.ID{r.first.ID, r.second}[v.of]))
	}
	go func() {
		defer close(over)
		_ = pgx.BeginTxFunc(r.t.Context(), conn, pgx.TxOptions{IsoLevel: v.isolation}, func(tx pgx.Tx) error { // that it is refused is as well
			_, err := tx.Exec(r.t.Context(), r.q(`SELECT FROM SCHEMA.agent`)) // takes the snapshot where that is the transaction's
			close(began)
			if err == nil {
				_, err = tx.Exec(r.t.Context(), r.q(v.text), args...)
			}
			close(did)
			<-commit
			return err
		})
	}()
	<-began
	var soon <-chan time.Time
	if !isFirst {
		soon = time.After(15 * time.Millisecond)
	}
	select {
	case <-did:
	case <-soon: // it waits for the other
	}
	return commit, over
}

// unblocks makes steps until nothing is left to do.
func (r *waitRace) unblocks() {
	r.t.Helper()
	for range 50 {
		u, err := r.Unblock(r.t.Context(), 100)
		require.NoError(r.t, err)
		if u.Worked == 0 && !u.Missed {
			return
		}
	}
	require.Fail(r.t, "it never ends")
}
