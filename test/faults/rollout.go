//go:build linux

package faults

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/script"
	"github.com/leasehold/leasehold/test/harness"
)

// atFirst is what is in force while all agents have the present configuration.
func atFirst() []string {
	return []string{
		"limit capped 5 0 of capped", "limit former 2 0 of former", "limit shared 0 2 of shared", "limit watched 7 2 of watched",
		"sequences of watched: continue", `schedule {"version":1}`, "ahead 12", "watched was declared in 1 ways", "orphans 0",
	}
}

// afterwards is what is in force from the first agent with the next one on.
func afterwards() []string {
	return []string{
		"limit capped 3 0 of capped", "limit former 4 0 of renamed", "limit renamed 4 0 of renamed", "limit shared 0 2 of shared",
		"limit watched 6 1 of watched", "sequences of watched: block", `schedule {"version":2}`, "ahead 10", "watched was declared in 2 ways",
		"orphans 0",
	}
}

// inForceSQL says what is in force in the whole store.
const inForceSQL = `
SELECT 'limit ' || type || ' ' || most || ' ' || tenant_most || ' of ' || name FROM leasehold.type_limit
UNION ALL SELECT 'sequences of ' || type || ': ' || on_failure FROM leasehold.sequence_rule WHERE type = 'watched'
UNION ALL SELECT 'schedule ' || replace(payload::text, ' ', '') FROM leasehold.schedule WHERE name = 'watched'
UNION ALL SELECT 'ahead ' || ahead FROM leasehold.chunk_plan
UNION ALL SELECT 'watched was declared in ' || count(*) || ' ways' FROM leasehold.declaration WHERE kind = 'task' AND name = 'watched'
UNION ALL SELECT 'orphans ' || count(*) FROM leasehold.orphans WHERE type NOT LIKE '` + undeclared + `%'`

// notedSQL lists how the type was declared, and when and by which agent first.
const notedSQL = `SELECT number || ' ' || first_at || ' ' || first_by FROM leasehold.declaration WHERE kind = 'task' AND name = 'watched'`

// texts returns the lines of a query, sorted.
func (u *upgrade) texts(sql string) (all []string) {
	query(u.t, u.world, sql, func(rows pgx.Rows) error {
		var line string
		err := rows.Scan(&line)
		all = append(all, line)
		return err
	})
	slices.Sort(all)
	return all
}

// comesIntoForce waits until that is in force in the whole store.
func (u *upgrade) comesIntoForce(want []string) {
	want = slices.Sorted(slices.Values(want))
	var have []string
	harness.Until(u.t, stepWithin, "all is in force", func() bool {
		have = u.texts(inForceSQL)
		return slices.Equal(want, have) || u.broken() != nil
	})
	require.NoError(u.t, u.broken())
	u.noted = u.texts(notedSQL)
	u.done("in force: %s", strings.Join(have, ", "))
}

// stays checks that all is in force still, and was noted once.
func (u *upgrade) stays(want []string) {
	require.Equal(u.t, slices.Sorted(slices.Values(want)), u.texts(inForceSQL))
	require.Equal(u.t, u.noted, u.texts(notedSQL))
}

// fullSQL reports whether the limit of a type is used up, also by places that attempts without a known end keep. PostgreSQL and SQLite.
const fullSQL = `
SELECT (SELECT count(*) FROM leasehold.task AS t JOIN leasehold.type_limit AS k ON k.type = t.type
        WHERE k.name = l.name AND t.state IN ('running', 'rollback_running'))
    + (SELECT count(*) FROM leasehold.limit_place AS p WHERE p.name = l.name AND NOT EXISTS (SELECT FROM leasehold.task AS r
        WHERE r.id = p.task_id AND r.fence = p.fence AND r.state IN ('running', 'rollback_running'))) >= l.most
FROM leasehold.type_limit AS l WHERE l.type = $1`

// crowd has more rows of the types with limits than may run at once, until each limit has been used up since some of them were claimed.
func (u *upgrade) crowd() {
	left := map[string]int64{kindCapped: u.lastMove(), kindFormer: u.lastMove()} // types, and the last step before
	harness.Until(u.t, stepWithin, "limits are used up", func() bool {
		u.keepWaiting(kindCapped, []string{kindCapped})
		u.keepWaiting(kindFormer, []string{kindFormer, kindRenamed})
		for kind, since := range left {
			var claimed, full bool
			const sql = `SELECT count(*) > 0 FROM journal WHERE serial > $1 AND type = $2 AND state = 'running'`
			require.NoError(u.t, u.app.QueryRow(u.t.Context(), sql, since, kind).Scan(&claimed))
			require.NoError(u.t, u.app.QueryRow(u.t.Context(), fullSQL, kind).Scan(&full))
			if claimed && full {
				delete(left, kind)
			}
		}
		return len(left) == 0 || u.broken() != nil
	})
	require.NoError(u.t, u.broken())
	u.done("limits are used up")
}

// keepWaiting inserts rows of a type that take a while, where none of it wait to start, whatever its names are.
func (u *upgrade) keepWaiting(kind string, names []string) {
	waiting := 0
	const sql = `SELECT count(*) FROM leasehold.task WHERE type = ANY ($1) AND state = 'pending'`
	require.NoError(u.t, u.app.QueryRow(u.t.Context(), sql, names).Scan(&waiting))
	if waiting > 0 {
		return
	}
	u.crowds++
	rows := make([]row, 2*renamedMost)
	for i := range rows {
		cohort := fmt.Sprintf("crowd-%d", u.crowds)
		rows[i] = newRow(u.r, u.nameOf(u.r, kind), []script.Deed{script.Work}, fmt.Sprintf("%s-%d", cohort, i), cohort)
	}
	commit := u.insert(u.t.Context(), rows, false, false)
	for i := range rows {
		rows[i].Commit = commit
	}
	u.keep(rows)
}

// lastMove is the serial of the last step that was written down.
func (u *upgrade) lastMove() (serial int64) {
	require.NoError(u.t, u.app.QueryRow(u.t.Context(), `SELECT max(serial) FROM journal`).Scan(&serial))
	return serial
}
