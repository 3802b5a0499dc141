package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// many puts rows of type a into three priorities and two regions.
const many = `INSERT INTO SCHEMA.task (type, priority, region, run_at)
	SELECT 'a', n % 3, CASE n % 2 WHEN 1 THEN 'sg' END, now() - n * interval '1 millisecond'
	FROM generate_series(1, 20000) AS n`

func TestEightClaimersTakeEachRowOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(t, many)
	var mu sync.Mutex
	seen := map[task.ID]int{}
	g, ctx := errgroup.WithContext(t.Context())
	for i := range 8 {
		twin, ok := h.Twin(t).(*harness)
		require.True(t, ok)
		a := joined(t, twin)
		region := []string{"", "sg"}[i%2]
		g.Go(func() error {
			for empty := 0; empty < 5; {
				a.claims++
				c := store.Claim{Session: a.session, Number: a.claims, Region: region, Wants: []store.Want{wantOf(300)}}
				rows, err := a.Claim(ctx, c)
				if err != nil {
					return err
				}
				if len(rows) == 0 {
					empty++
				}
				mu.Lock()
				for _, row := range rows {
					seen[row.ID]++
				}
				mu.Unlock()
				if len(rows) > 300 {
					t.Errorf("wanted 300 rows and got %d", len(rows))
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.Len(t, seen, 20000)
	for id, n := range seen {
		require.Equal(t, 1, n, "row %d", id)
	}
	require.Zero(t, h.number(t, `SELECT count(*) FROM SCHEMA.task WHERE fence <> 1 OR attempt <> 1`))
}

// TestRowsBelowTheLowWaterMark has rows appear below what an agent has claimed already.
func TestRowsBelowTheLowWaterMark(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a := joined(t, h)
	h.exec(t, many)
	claim := func(n int) []task.Task {
		a.claims++
		rows, err := a.Claim(t.Context(), store.Claim{Session: a.session, Number: a.claims, Wants: []store.Want{wantOf(n)}})
		require.NoError(t, err)
		return rows
	}
	first := claim(100)
	require.Len(t, first, 100)
	early := h.Insert(t, store.EnqueueRequest{Type: "a", Priority: 2, In: -time.Hour})
	var got []task.ID
	for {
		rows := claim(1000)
		for _, row := range rows {
			got = append(got, row.ID)
		}
		if len(rows) < 1000 {
			break // short: there is no more
		}
	}
	require.Contains(t, got, early[0])
	require.Len(t, got, 10000-100+1)
	require.Empty(t, claim(10))
	// Now that all has been claimed, a row with any due time is seen at once.
	late := h.Insert(t, store.EnqueueRequest{Type: "a", Priority: 2, In: -2 * time.Hour})
	require.Equal(t, late[0], claim(10)[0].ID)
}

// TestAHeldSnapshotDoesNotSlowClaims counts the pages that claims touch while dead rows cannot be removed.
func TestAHeldSnapshotDoesNotSlowClaims(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a := joined(t, h)
	a.FreezeLowWater() // nineteen claims may take longer than a mark lasts
	tx, err := pgtest.Connect(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	h.exec(t, `INSERT INTO SCHEMA.task (type) SELECT 'a' FROM generate_series(1, 20000)`)
	for range 19 {
		a.claims++
		rows, err := a.Claim(t.Context(), store.Claim{Session: a.session, Number: a.claims, Wants: []store.Want{wantOf(1000)}})
		require.NoError(t, err)
		require.Len(t, rows, 1000)
	}
	above, err := a.BuffersOf(t.Context(), store.Claim{Session: a.session, Number: 100, Wants: []store.Want{wantOf(10)}})
	require.NoError(t, err)
	a.ForgetLowWater()
	zero, err := a.BuffersOf(t.Context(), store.Claim{Session: a.session, Number: 101, Wants: []store.Want{wantOf(10)}})
	require.NoError(t, err)
	require.Less(t, 5*above, zero, "index entries below the mark are passed over")
	require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context())))
}

// TestTheFirstWantComesFirstInAnyPlan: the order of the wants decides which row gets a lock, not that of their types, in which a plan may find them.
func TestTheFirstWantComesFirstInAnyPlan(t *testing.T) {
	t.Parallel()
	for _, region := range []string{"", "eu"} {
		t.Run(region, func(t *testing.T) {
			t.Parallel()
			a := joined(t, newHarness(t))
			ids := a.Insert(t, store.EnqueueRequest{Type: "a", Lock: "x"}, store.EnqueueRequest{Type: "b", Lock: "x"})
			merging := openStore(t, postgres.Options{
				Schema: a.schema, URL: pgtest.URL(t) + "&options=-c%20enable_hashjoin%3Doff%20-c%20enable_nestloop%3Doff",
			})
			first, second := wantOf(5), wantOf(5)
			first.Type, second.Type = "b", "a"
			got, err := merging.Claim(t.Context(), store.Claim{Session: a.session, Number: 1, Region: region, Wants: []store.Want{first, second}})
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Equal(t, ids[1], got[0].ID)
		})
	}
}

// TestAClaimLooksAtNoMoreThanItTakes counts the pages that claims touch beside many rows that they leave: in any region, and under a limit.
func TestAClaimLooksAtNoMoreThanItTakes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a := joined(t, h)
	h.exec(t, `INSERT INTO SCHEMA.task (type, region) SELECT 'a', nullif('eu', repeat('eu', n % 2)) FROM generate_series(1, 20000) AS n`)
	claim := store.Claim{Session: a.session, Number: 100, Wants: []store.Want{wantOf(1)}}
	plain, err := a.BuffersOf(t.Context(), claim)
	require.NoError(t, err)
	limited, err := a.BuffersOfLimited(t.Context(), claim, 1)
	require.NoError(t, err)
	require.Less(t, limited, plain+50)
	rollback := wantOf(1)
	rollback.Phase = task.Rollback
	for _, claim.Region = range []string{"", "eu"} {
		for _, claim.Wants = range [][]store.Want{{wantOf(1)}, {wantOf(1), rollback}} {
			n, err := a.BuffersOf(t.Context(), claim)
			require.NoError(t, err)
			require.Less(t, n, plain+50)
		}
	}
}
