package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// mixed returns settlements of rows of all kinds, among many that simply succeed: refused, repeated, released, with an outcome or a
// report of their own, and of a row twice in one call.
func mixed(rows []task.Task) []store.Settlement {
	var list []store.Settlement
	for i, t := range rows {
		e := succeeded(t)
		switch i % 20 {
		case 3:
			e.Fence++ // never held
		case 7:
			e = released(t)
		case 9:
			e.Next.State, e.Next.Reason = task.StateFailed, "out of attempts"
			e.Outcome = task.Outcome{Verdict: task.Failed, Error: fmt.Sprintf("error %d", i), Output: "output"}
		case 11:
			e.Outcome.Result, e.Started = nil, 3*time.Second
		case 13:
			e.Report.Progress = []byte("0.5")
		case 15:
			list = append(list, e) // and again below
		}
		list = append(list, e)
	}
	other := succeeded(rows[0])
	other.ID = 1 << 30
	return append(list, other, released(rows[1]))
}

// Rows are copied to the archive many at once. That changes neither the answers nor the rows.
func TestManySettlementsAreAsThoseOfSingleRows(t *testing.T) {
	t.Parallel()
	const rows = 150
	type finished struct {
		ID                                            int64
		State, Result, Error, Output, Progress, Start string
	}
	settle := func(atOnce int) (answers []store.Answer, archive []finished, live int) {
		h := newHarness(t)
		session, err := h.Join(t.Context(), store.Agent{Name: "a", Presence: time.Hour})
		require.NoError(t, err)
		fill(t, h, rows)
		tasks, err := h.Claim(t.Context(), claimOf(session, 1))
		require.NoError(t, err)
		require.Len(t, tasks, rows)
		list := mixed(tasks)
		for len(list) > 0 {
			n := min(atOnce, len(list))
			some, err := h.Settle(t.Context(), session, list[:n])
			require.NoError(t, err)
			answers, list = append(answers, some...), list[n:]
		}
		found, err := h.app.QueryContext(t.Context(), `SELECT id, state, ifnull(result, ''), ifnull(error, ''), ifnull(output, ''),
			ifnull(progress, ''), iif(started_at IS NULL, 'never', 'once') FROM task_archive ORDER BY id`)
		require.NoError(t, err)
		defer func() { require.NoError(t, found.Close()) }()
		for found.Next() {
			var f finished
			require.NoError(t, found.Scan(&f.ID, &f.State, &f.Result, &f.Error, &f.Output, &f.Progress, &f.Start))
			archive = append(archive, f)
		}
		require.NoError(t, found.Err())
		return answers, archive, h.count(t, "SELECT count(*) FROM task")
	}
	answers, archive, live := settle(1)
	many, archiveOfMany, liveOfMany := settle(1000)
	require.Equal(t, answers, many)
	require.Equal(t, archive, archiveOfMany)
	require.Equal(t, live, liveOfMany)
	require.Equal(t, rows, len(archive)+live)
	for _, a := range []store.Answer{store.Applied, store.Ended, store.Lost} {
		require.Contains(t, many, a)
	}
}

// Where rows cannot be archived, none is settled, and the error of the one that is to blame names it. The others can be settled.
func TestARowThatCannotBeArchivedIsNamed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	session, err := h.Join(t.Context(), store.Agent{Name: "a", Presence: time.Hour})
	require.NoError(t, err)
	fill(t, h, 100)
	tasks, err := h.Claim(t.Context(), claimOf(session, 1))
	require.NoError(t, err)
	list := make([]store.Settlement, len(tasks))
	for i := range tasks {
		list[i] = succeeded(tasks[i])
	}
	require.NoError(t, h.exec(t, fmt.Sprintf(`CREATE TRIGGER refuse BEFORE INSERT ON task_archive WHEN NEW.id = %d
		BEGIN SELECT RAISE(ABORT, 'refused by the test'); END`, tasks[42].ID)))
	_, err = h.Settle(t.Context(), session, list)
	require.ErrorContains(t, err, "refused by the test")
	require.Zero(t, h.count(t, "SELECT count(*) FROM task_archive"))
	_, err = h.Settle(t.Context(), session, list[42:43])
	require.ErrorContains(t, err, fmt.Sprintf("task %d: ", tasks[42].ID))
	answers, err := h.Settle(t.Context(), session, append(list[:42:42], list[43:]...))
	require.NoError(t, err)
	require.Len(t, answers, 99)
	require.Equal(t, 99, h.count(t, "SELECT count(*) FROM task_archive"))
	require.Equal(t, 1, h.count(t, "SELECT count(*) FROM task"))
}
