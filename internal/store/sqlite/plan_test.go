package sqlite

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// TestPlans looks at how SQLite would run each statement of the hot calls: by which index, and that none reads a table
// from end to end.
func TestPlans(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	fill(t, h, 2000)
	const (
		byID   = "SEARCH task USING INTEGER PRIMARY KEY"
		below  = " (type=? AND <expr>=? AND priority<?)"
		within = " (type=? AND <expr>=? AND priority=? AND run_at<?)"
		merge  = "MERGE (UNION ALL)"
	)
	sorts := map[string]bool{ // few rows, or a bounded number of them
		"claimed": true, "present": true, "dead": true, "count runs": true, "take others": true, "soonest": true, "failures": true,
	}
	for _, counted := range []bool{false, true} {
		if counted { // what somebody's ANALYZE leaves behind must not tempt the planner
			require.NoError(t, h.exec(t, "ANALYZE"))
		}
		for name, c := range map[string]struct {
			text  string
			needs []string
		}{
			"head":         {headQuery(task.Run), []string{"USING COVERING INDEX task_due" + below}},
			"head undo":    {headQuery(task.Rollback), []string{"USING COVERING INDEX task_undo" + below}},
			"take":         {takeQuery(task.Run, 1, false), []string{byID, "INDEX task_due" + within}},
			"take regions": {takeQuery(task.Run, 2, false), []string{byID, merge, "INDEX task_due" + within}},
			"take others":  {takeQuery(task.Run, 2, true), []string{byID, merge, "INDEX task_due" + within, "INDEX batch_stopping"}},
			"too large":    {tooLargeQuery(task.Run, 2), []string{"INDEX task_due" + within}},
			"soonest":      {soonestQuery(2), []string{"INDEX task_due (type=? AND <expr>=? AND priority=?)", "INDEX batch_stopping"}},
			"stopping":     {stoppingQuery, []string{"INDEX batch_stopping", "COVERING INDEX task_batch (batch_id=? AND state=?)"}},
			"open batch":   {openBatchQuery, []string{"INDEX batch_open"}},
			"of batch":     {ofBatchQuery, []string{byID}},
			"tally":        {tallyQuery, []string{"SEARCH batch USING INTEGER PRIMARY KEY"}},
			"fold":         {foldQuery, []string{"USING INDEX batch_open", "INDEX operation_batch (batch_id=?)"}},
			"unseen":       {unseenQuery, []string{"USING INDEX batch_open"}},
			"operations":   {operationsQuery, []string{"USING INDEX operation_open"}},
			"waiting":      {waitingQuery, []string{"COVERING INDEX task_batch (batch_id=? AND state=?)"}},
			"goes on":      {goesOnQuery, []string{"COVERING INDEX task_batch (batch_id=? AND state=?)"}},
			"ask":          {askQuery, []string{byID, "INDEX task_batch (batch_id=? AND state=?)"}},
			"failed":       {failedQuery, []string{"INDEX task_archive_batch_unwell (batch_id=? AND rowid>?)"}},
			"finished":     {finishedQuery, []string{"INDEX task_archive_started (batch_id=? AND <expr><?)", "INDEX policy_undo (type=?)"}},
			"failures":     {failuresQuery, []string{"INDEX task_archive_batch_unwell (batch_id=?)", "INDEX task_batch (batch_id=? AND state=?)"}},
			"standing":     {standingQuery, []string{byID, "SEARCH task_archive USING INTEGER PRIMARY KEY", "INDEX policy_undo (type=?)"}},
			"batch":        {"SELECT " + batchColumns + " FROM batches WHERE id = ?", []string{"SEARCH batch USING INTEGER PRIMARY KEY", "COVERING INDEX task_batch (batch_id=? AND state=?)"}},
			"old batches":  {oldBatches, []string{"INDEX batch_ended (ended_at<?)", "SEARCH task_archive USING COVERING INDEX"}},
			"take undo":    {takeQuery(task.Rollback, 2, false), []string{byID, merge, "INDEX task_undo" + within}},
			"claimed":      {claimedQuery, []string{"INDEX task_running (session=?)"}},
			"cancels":      {cancelsQuery, []string{"INDEX task_running (session=?)", "INDEX batch_stopping"}},
			"present":      {heldQuery, []string{"INDEX task_running (session=?)"}},
			"renew":        {renewQuery, []string{byID}},
			"renew noted":  {renewNotedQuery, []string{byID}},
			"note":         {noteQuery, []string{byID}},
			"pinged":       {pingedQuery, []string{byID}},
			"marks":        {marksQuery, []string{byID}},
			"ping":         {pingQuery, []string{byID}},
			"attempt":      {attemptQuery, []string{byID}},
			"completed":    {completedQuery, []string{"SEARCH task_archive USING INTEGER PRIMARY KEY"}},
			"answer":       {answerQuery("cancel"), []string{byID, "SEARCH task_archive USING INTEGER PRIMARY KEY"}},
			"adoptable":    {adoptableQuery, []string{"SEARCH t USING INTEGER PRIMARY KEY", "SEARCH a USING INTEGER PRIMARY KEY"}},
			"adopt":        {adoptQuery, []string{byID}},
			"condemned":    {condemnedQuery, []string{"SEARCH attempt USING"}},
			"told by view": {"SELECT cancel, remaining_s FROM ping WHERE id = ?", []string{byID, "SEARCH policy USING INTEGER PRIMARY KEY"}},
			"archive":      {archiveQuery, []string{byID}},
			"release":      {releaseQuery, []string{byID}},
			"delete":       {deleteQuery, []string{byID}},
			"missed":       {missedQuery, []string{byID, "SEARCH task_archive USING INTEGER PRIMARY KEY", "SEARCH attempt USING"}},
			"dead":         {deadQuery, []string{"SCAN t USING INDEX task_running", "SEARCH a USING INTEGER PRIMARY KEY"}},
			"judge":        {judgeQuery, []string{byID}},
			"enqueue":      {keyedQuery, []string{"USING COVERING INDEX task_key (type=? AND key=?)"}},
			"count due":    {countings()[0].text, []string{"USING COVERING INDEX task_due"}},
			"count undo":   {countings()[1].text, []string{"USING COVERING INDEX task_undo"}},
			"count runs":   {countings()[2].text, []string{"USING INDEX task_running"}},
			"old":          {oldQuery, []string{"USING INDEX task_archive_finished (finished_at>? AND finished_at<?)"}},
			"old attempts": {oldAttempts, []string{"SEARCH attempt USING"}},
			"old tasks":    {oldTasks, []string{"SEARCH task_archive USING INTEGER PRIMARY KEY"}},
		} {
			plan := h.plan(t, c.text)
			for _, need := range c.needs {
				require.Contains(t, plan, need, "%s\n%s", name, plan)
			}
			for line := range strings.Lines(plan) {
				for _, table := range []string{"task", "t", "task_archive", "attempt", "batch", "operation", "policy"} {
					require.NotEqual(t, "SCAN "+table, strings.TrimSpace(line), "%s\n%s", name, plan)
				}
				if !sorts[name] {
					require.NotContains(t, line, "USE TEMP B-TREE", "%s\n%s", name, plan)
				}
			}
		}
	}
}

// Looking for few of many finished rows reads few of them.
func TestPlansOfLists(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, c := range []struct {
		filter ops.Filter
		needs  string
	}{
		{ops.Filter{Type: "a"}, "SEARCH task_archive USING INDEX task_archive_type (type=?"},
		{ops.Filter{Type: "a", Before: 7}, "SEARCH task_archive USING INDEX task_archive_type (type=? AND rowid<?)"},
		{ops.Filter{Key: "k"}, "SEARCH task_archive USING INDEX task_archive_key (key=?)"},
		{ops.Filter{States: []task.State{task.StateFailed}}, "task_archive USING INDEX task_archive_unwell"},
		{ops.Filter{Before: 7}, "SEARCH task_archive USING INTEGER PRIMARY KEY (rowid<?)"},
	} {
		text, _, err := listQuery("task_archive", c.filter)
		require.NoError(t, err)
		plan := h.plan(t, text)
		require.Contains(t, plan, c.needs, "%+v", c.filter)
		require.NotContains(t, plan, "USE TEMP B-TREE FOR ORDER BY", "%+v", c.filter)
	}
}

// plan is what EXPLAIN QUERY PLAN says, line by line.
func (h *harness) plan(t *testing.T, text string) string {
	t.Helper()
	args := make([]any, 0, 13)
	for range strings.Count(text, "?") + 13 {
		args = append(args, 1)
	}
	stmt, err := h.app.PrepareContext(t.Context(), "EXPLAIN QUERY PLAN "+text)
	require.NoError(t, err)
	defer func() { require.NoError(t, stmt.Close()) }()
	rows, err := stmt.QueryContext(t.Context(), args...)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, eachRow(rows, func(r *sql.Rows) error {
		var id, parent, unused int
		var detail string
		err := r.Scan(&id, &parent, &unused, &detail)
		b.WriteString(detail + "\n")
		return err
	}))
	return b.String()
}

// A million rows that are due next year, at a higher priority, must not slow a claim down: it takes no longer than it
// takes SQLite to look at a few rows.
func TestFutureRowsAreNotRead(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, `
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
		INSERT INTO task (type, priority, run_at) SELECT 'x', 5, '2999-01-01T00:00:00.000Z' FROM n`))
	fill(t, h, 3)
	steps := 0
	err := h.update(t.Context(), "count", func(tx *tx) error {
		hd := newHeads(claimOf(1, 1).Wants[0], "")
		for {
			_, _, ok, err := hd.next(tx.row)
			if err != nil || !ok {
				return err
			}
			steps++
		}
	})
	require.NoError(t, err)
	require.Equal(t, 2, steps, "one step for each priority")
	tasks, err := h.Claim(t.Context(), claimOf(1, 1))
	require.NoError(t, err)
	require.Len(t, tasks, 3)
	in, ok, err := h.NextDue(t.Context(), claimOf(1, 1))
	require.NoError(t, err)
	require.True(t, ok)
	require.Greater(t, in, 100*365*24*time.Hour)
}
