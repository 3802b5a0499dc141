package sqlite

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
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

		belowOfTenant = " (type=? AND <expr>=? AND tenant=? AND priority<?)"
		withinTenant  = " (type=? AND <expr>=? AND tenant=? AND priority=? AND run_at<?)"
	)
	sorts := map[*sqltext.Query]bool{ // few rows, or a bounded number of them
		h.sql.Claimed: true, h.sql.Held: true, h.sql.Expired: true, h.sql.CountRunning: true, h.sql.ClaimStartable: true,
		h.sql.Soonest: true, h.sql.Failures: true, h.sql.WaitingOfBatch: true,
		h.sql.SumBatches: true, h.sql.CountHeld: true, h.sql.CountAfter: true,
	}
	reported, err := sqltext.Compile("reply of the view", "SELECT cancel, remaining_s FROM ping WHERE id = @id", sqltext.SQLite)
	require.NoError(t, err)
	batch, err := h.sql.ListBatches.Fill("{where}", "id = @id")
	require.NoError(t, err)
	audit, err := h.sql.Audit.FillAll("{of}", "id < @before", "{where}", "verb = @verb")
	require.NoError(t, err)
	auditOfTask, err := h.sql.Audit.FillAll("{of}", "task_id = @task AND id < @before", "{where}", "verb = @verb")
	require.NoError(t, err)
	plans := map[*sqltext.Query][]string{
		h.sql.HeadDue:                  {"USING COVERING INDEX task_due" + below},
		h.sql.HeadRollback:             {"USING COVERING INDEX task_rollback" + below},
		h.sql.ClaimDue:                 {byID, merge, "COVERING INDEX task_due" + within},
		h.sql.ClaimStartable:           {byID, merge, "INDEX task_due" + within, "INDEX batch_stopping"},
		h.sql.ClaimRollback:            {byID, merge, "COVERING INDEX task_rollback" + within},
		h.sql.ClaimRows:                {byID},
		h.sql.RowsBehind:               {byID},
		h.sql.LookBulkLive:             {byID, "INDEX policy_rollback (type=?)", "INDEX operation_task (task_id=?)"},
		h.sql.LookBulkFollowers:        {"SEARCH follow USING INTEGER PRIMARY KEY"},
		h.sql.LookBulkFinished:         {"SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.LookBulkUnsuccessful:     {"SEARCH task_archive USING INDEX task_archive_unsuccessful ("},
		h.sql.LookBulkType:             {"SEARCH task_archive USING INDEX task_archive_type (type=? AND rowid>? AND rowid<?)"},
		h.sql.LookBulkAgain:            {byID, "SEARCH follow USING INTEGER PRIMARY KEY", "SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.BatchSpan:                {"INDEX task_batch (batch_id=?)", "USING COVERING INDEX task_archive_batch (batch_id=?)"},
		audit:                          {"SEARCH audit USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		auditOfTask:                    {"INDEX audit_task (task_id=? AND rowid>? AND rowid<?)"},
		h.sql.Glance:                   {byID, "SEARCH follow USING INTEGER PRIMARY KEY", "SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.Newest:                   {byID, "SEARCH follow USING INTEGER PRIMARY KEY", "SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.OpenBulks:                {"INDEX bulk_change_open"},
		h.sql.Activity:                 {"SEARCH activity USING PRIMARY KEY (step=? AND at>? AND at<?)"},
		h.sql.DeleteActivity:           {"SEARCH activity USING PRIMARY KEY (step=? AND at>? AND at<?)"},
		h.sql.OrphanSequences:          {"COVERING INDEX task_sequence (type=? AND sequence>?)"},
		h.sql.JudgeOrphans:             {byID, "COVERING INDEX task_key (type=? AND key=?)"},
		h.sql.JudgeSequence:            {"INDEX sequence_failure_name (type=? AND name=?)", "INDEX sequence_note_until (type=? AND name=? AND until>?)"},
		h.sql.TooLargeDue:              {"INDEX task_due" + within},
		h.sql.TooLargeRollback:         {"INDEX task_rollback" + within},
		h.sql.Soonest:                  {"INDEX task_due (type=? AND <expr>=? AND priority=?)", "INDEX batch_stopping"},
		h.sql.Stopping:                 {"INDEX batch_stopping", "COVERING INDEX task_batch (batch_id=? AND state=?)", "USING COVERING INDEX task_tenant", "USING COVERING INDEX task_tenant_rollback"},
		h.sql.NextTenantDue:            {"COVERING INDEX task_tenant (type=? AND <expr>=? AND tenant>?)"},
		h.sql.NextTenantRollback:       {"COVERING INDEX task_tenant_rollback (type=? AND <expr>=? AND tenant>?)"},
		h.sql.HeadTenantDue:            {"COVERING INDEX task_tenant" + belowOfTenant},
		h.sql.HeadTenantRollback:       {"COVERING INDEX task_tenant_rollback" + belowOfTenant},
		h.sql.CountLevel:               {"INDEX task_due" + within, "INDEX batch_stopping"},
		h.sql.CountLevelRollback:       {"COVERING INDEX task_rollback" + within},
		h.sql.CountTenantLevel:         {"INDEX task_tenant" + withinTenant, "INDEX batch_stopping"},
		h.sql.CountTenantLevelRollback: {"COVERING INDEX task_tenant_rollback" + withinTenant},
		h.sql.ClaimTenantDue:           {byID, "INDEX task_tenant" + withinTenant, "INDEX batch_stopping"},
		h.sql.ClaimTenantRollback:      {byID, "COVERING INDEX task_tenant_rollback" + withinTenant},
		h.sql.TooLargeTenantDue:        {byID, "INDEX task_tenant" + withinTenant, "INDEX batch_stopping"},
		h.sql.TooLargeTenantRollback:   {byID, "COVERING INDEX task_tenant_rollback" + withinTenant},
		h.sql.SoonestTenant:            {"INDEX task_tenant (type=? AND <expr>=? AND tenant=? AND priority=?)", "INDEX batch_stopping"},
		h.sql.CountTenantDue:           {"USING COVERING INDEX task_tenant"},
		h.sql.CountTenantRollback:      {"USING COVERING INDEX task_tenant_rollback"},
		h.sql.AnyOpenBatch:             {"INDEX batch_open"},
		h.sql.OfBatch:                  {byID},
		h.sql.Tally:                    {"SEARCH batch USING INTEGER PRIMARY KEY"},
		h.sql.AnyUnseen:                {"USING INDEX batch_open"},
		h.sql.SumBatches:               {"USING INDEX batch_open", "INDEX operation_batch (batch_id=?)"},
		h.sql.SummedBatch:              {"SEARCH batch USING INTEGER PRIMARY KEY", "INDEX operation_batch (batch_id=?)"},
		h.sql.SeeBatches:               {"USING INDEX batch_open"},
		h.sql.AnyOperation:             {"USING INDEX operation_open"},
		h.sql.Left:                     {"USING INDEX operation_open", "USING INDEX bulk_change_open"},
		h.sql.Operations:               {"USING INDEX operation_open"},
		h.sql.WaitingOfBatch:           {"INDEX task_batch (batch_id=? AND state=? AND rowid>?)", "INDEX policy_rollback (type=?)"},
		h.sql.AnyUnstopped:             {"COVERING INDEX task_batch (batch_id=? AND state=?)"},
		h.sql.RunningOfBatch:           {"INDEX task_batch (batch_id=? AND state=?)"},
		h.sql.RequestCancels:           {byID},
		h.sql.CountWaiting:             {byID},
		h.sql.CancelWaiting:            {byID},
		h.sql.CountFinished:            {"SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.Revive:                   {"SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.FailedOfBatch:            {"INDEX task_archive_batch_unsuccessful (batch_id=? AND rowid>?)"},
		h.sql.FinishedOfBatch:          {"INDEX task_archive_started (batch_id=? AND <expr><?)", "INDEX policy_rollback (type=?)"},
		h.sql.Failures:                 {"INDEX task_archive_batch_unsuccessful (batch_id=?)", "INDEX task_batch (batch_id=? AND state=?)"},
		h.sql.Standing:                 {byID, "SEARCH task_archive USING INTEGER PRIMARY KEY", "INDEX policy_rollback (type=?)"},
		h.sql.TaskToRollBack:           {byID, "SEARCH task_archive USING INTEGER PRIMARY KEY", "INDEX policy_rollback (type=?)"},
		batch:                          {"SEARCH batch USING INTEGER PRIMARY KEY", "COVERING INDEX task_batch (batch_id=? AND state=?)"},
		h.sql.ExpiredBatches:           {"INDEX batch_ended (ended_at<?)", "SEARCH task_archive USING COVERING INDEX"},
		h.sql.Claimed:                  {"INDEX task_running (session=?)"},
		h.sql.Cancels:                  {"INDEX task_running (session=?)", "INDEX batch_stopping"},
		h.sql.Held:                     {"INDEX task_running (session=?)"},
		h.sql.Renew:                    {byID},
		h.sql.RenewWithProgress:        {byID},
		h.sql.NoteProgress:             {byID},
		h.sql.Pinged:                   {byID},
		h.sql.Marks:                    {byID},
		h.sql.Ping:                     {byID},
		h.sql.Attempt:                  {byID},
		h.sql.Completed:                {"SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.CancelAnswer:             {byID, "SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.Adoptable:                {"SEARCH t USING INTEGER PRIMARY KEY", "SEARCH a USING INTEGER PRIMARY KEY"},
		h.sql.Adopt:                    {byID},
		h.sql.AttemptFailed:            {"SEARCH attempt USING"},
		reported:                       {byID, "SEARCH policy USING INTEGER PRIMARY KEY"},
		h.sql.Archive:                  {byID},
		h.sql.Release:                  {byID},
		h.sql.Copied:                   {byID, "SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.DeleteArchived:           {byID},
		h.sql.InsertOnFailed:           {byID, "SEARCH a USING"},
		h.sql.InsertFollowers:          {"SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.Unapplied:                {byID, "SEARCH task_archive USING INTEGER PRIMARY KEY", "SEARCH attempt USING"},
		h.sql.Holders:                  {"SCAN t USING INDEX task_running", "SEARCH a USING INTEGER PRIMARY KEY"},
		h.sql.Expired:                  {"SCAN t USING INDEX task_running", "SEARCH a USING INTEGER PRIMARY KEY"},
		h.sql.Reap:                     {byID},
		h.sql.LiveWithKey:              {"USING COVERING INDEX task_key (type=? AND key=?)"},
		h.sql.RegionOrphans: {
			"SEARCH t USING COVERING INDEX task_spill (type=? AND region>?)", "SEARCH t USING COVERING INDEX task_spill (type>?)",
			"SEARCH t USING INDEX task_spill (type=? AND region=?)", "SEARCH p USING INTEGER PRIMARY KEY",
		},
		h.sql.CountDue:       {"USING COVERING INDEX task_due"},
		h.sql.CountRollback:  {"USING COVERING INDEX task_rollback"},
		h.sql.CountRunning:   {"USING INDEX task_running"},
		h.sql.CountAfter:     {"USING COVERING INDEX task_after"},
		h.sql.NoteEnds:       {byID},
		h.sql.EndedNotes:     {byID},
		h.sql.Await:          {byID},
		h.sql.AwaitFollowers: {"SEARCH follow USING INTEGER PRIMARY KEY"},
		h.sql.WaitingFor:     {"USING INDEX dependency_open (on_id=?)"},
		h.sql.CountDown:      {"SEARCH dependent USING INTEGER PRIMARY KEY"},
		h.sql.SetEnded:       {"SEARCH dependency USING PRIMARY KEY (on_id=? AND task_id=?)"},
		h.sql.Ready:          {"USING COVERING INDEX dependent_ready", "SEARCH dependency USING COVERING INDEX dependency_task (task_id=?)"},
		h.sql.LiveAgain:      {"INDEX dependency_task (task_id=?)", byID, "SEARCH follow USING INTEGER PRIMARY KEY"},
		h.sql.WaitingTotal:   {"INDEX dependency_open (on_id=?)"},
		h.sql.CancelledFor:   {"USING COVERING INDEX task_archive_cancelled_for (cancelled_for=? AND id>?)"},
		h.sql.CancelledTotal: {"USING COVERING INDEX task_archive_cancelled_for (cancelled_for=?)"},
		h.sql.CancelledNeighbours: {
			"USING INDEX task_archive_cancelled_for (cancelled_for=?)", "USING COVERING INDEX task_key (type=? AND key=?)",
			"SEARCH b USING INTEGER PRIMARY KEY",
		},
		h.sql.RevivalBarred: {
			"SEARCH a USING INTEGER PRIMARY KEY", "USING COVERING INDEX task_key (type=? AND key=?)", "SEARCH b USING INTEGER PRIMARY KEY",
		},
		h.sql.SayNotRevived: {"SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.Neighbours:    {byID, "SEARCH task_archive USING INTEGER PRIMARY KEY", "SEARCH follow USING INTEGER PRIMARY KEY"},
		h.sql.Predecessors: {
			"SEARCH t USING INTEGER PRIMARY KEY", "SEARCH a USING INTEGER PRIMARY KEY", "SEARCH f USING INTEGER PRIMARY KEY",
		},
		h.sql.WaitAgain:        {"SEARCH dependency USING"},
		h.sql.BadPredecessor:   {"INDEX dependency_task (task_id=?)", "SEARCH a USING INTEGER PRIMARY KEY"},
		h.sql.FreeDependent:    {byID, "INDEX dependency_task (task_id=?)", "SEARCH a USING INTEGER PRIMARY KEY"},
		h.sql.ForgetDependency: {"INDEX dependency_task (task_id=?)"},
		h.sql.CountHeld:        {"USING INDEX task_held"},
		h.sql.LockStanding:     {"SEARCH lock_holder USING PRIMARY KEY (name=?)", byID, "COVERING INDEX lock_note_until (name=? AND until>?)"},
		h.sql.HoldBack:         {byID},
		h.sql.CountTurns:       {"USING INDEX task_turns"},
		h.sql.Turn: {
			"SEARCH h USING PRIMARY KEY (type=? AND name=?)", byID, "COVERING INDEX sequence_note_until (type=? AND name=? AND until>?)",
		},
		h.sql.NextTurn: {
			"COVERING INDEX task_sequence_rollback (type=? AND sequence=?)", "COVERING INDEX task_sequence (type=? AND sequence=?)",
			"COVERING INDEX sequence_failure_name (type=? AND name=?)", "SEARCH sequence_rule USING PRIMARY KEY (type=?)",
		},
		h.sql.FreeTurn:     {byID},
		h.sql.AnySequence:  {"USING COVERING INDEX task_sequence"},
		h.sql.HoldTurns:    {byID},
		h.sql.NextTurnNote: {"USING COVERING INDEX sequence_note_until"},
		h.sql.ForgetTurn: {
			"SEARCH sequence_holder USING PRIMARY KEY (type=? AND name=?)", "COVERING INDEX task_sequence (type=? AND sequence=?)",
			"COVERING INDEX sequence_failure_name (type=? AND name=?)",
		},
		h.sql.SequenceRows: {"COVERING INDEX task_sequence (type=? AND sequence=?)"},
		h.sql.FindSequences: {
			"COVERING INDEX task_sequence ((type,sequence)>(?,?))", "COVERING INDEX task_sequence (type=? AND sequence>?)",
			"COVERING INDEX task_sequence (type>?)", "COVERING INDEX sequence_failure_name ((type,name)>(?,?))",
			"COVERING INDEX sequence_failure_name (type=? AND name>?)", "COVERING INDEX sequence_failure_name (type>?)",
		},
		h.sql.ShowSequence: {
			"COVERING INDEX task_sequence (type=? AND sequence=?)", "INDEX task_sequence_rollback (type=? AND sequence=?)",
			"COVERING INDEX sequence_failure_name (type=? AND name=?)", "SEARCH h USING PRIMARY KEY (type=? AND name=?)",
			"SEARCH t USING INTEGER PRIMARY KEY", "SEARCH a USING INTEGER PRIMARY KEY",
		},
		h.sql.CountSequence: {"INDEX task_sequence (type=? AND sequence=?)"},
		h.sql.NoteLocks:     {byID},
		h.sql.NextNote:      {"USING COVERING INDEX lock_note_until"},
		h.sql.NextClass: {
			"INDEX task_held (lock=? AND type=? AND <expr>=? AND <expr>>?)", "INDEX task_held (lock=? AND type=? AND <expr>>?)",
			"INDEX task_held (lock=? AND type>?)",
		},
		h.sql.NextRegion:       {"COVERING INDEX task_spill (type=? AND region>?)"},
		h.sql.AnyLate:          {"COVERING INDEX task_spill (type=? AND region=? AND <expr><?)"},
		h.sql.Spill:            {byID, "INDEX task_spill (type=? AND region=? AND <expr><?)"},
		h.sql.PromoteFirst:     {byID, "INDEX task_held (lock=? AND type=? AND <expr>=? AND <expr>=?)"},
		h.sql.ExpiredTasks:     {"USING INDEX task_archive_finished (finished_at>? AND finished_at<?)"},
		h.sql.StillExpired:     {"SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.NoteFailedChunks: {"USING INDEX chunk_range_place", "SEARCH a USING INTEGER PRIMARY KEY"},
		h.sql.DeleteAttempts:   {"SEARCH attempt USING"},
		h.sql.DeleteTasks:      {"SEARCH task_archive USING INTEGER PRIMARY KEY"},
		h.sql.DeleteLeases: {
			"SEARCH lease USING INTEGER PRIMARY KEY", "SEARCH old USING INDEX lease_acquired (acquired_at<?)",
		},
		h.sql.Circumstances: {
			"SEARCH t USING INTEGER PRIMARY KEY", "COVERING INDEX task_limited (limited=?)", "COVERING INDEX task_limited (limited=? AND tenant=?",
			"INDEX limit_place_name (name=?)", "INDEX limit_place_name (name=? AND tenant=?)",
		},
		h.sql.RunningTypes:       {"SCAN task USING INDEX task_running"},
		h.sql.AheadInSequence:    {"COVERING INDEX task_sequence (type=? AND sequence=? AND id<?)"},
		h.sql.WaitingForLock:     {"INDEX task_held (lock=?)"},
		h.sql.CountLimited:       {"COVERING INDEX task_limited (limited=?)"},
		h.sql.LimitRunning:       {"SCAN task USING INDEX task_running"},
		h.sql.GiveToken:          {byID},
		h.sql.GiveTenantToken:    {byID, "SEARCH tenant_bucket USING PRIMARY KEY (name=? AND tenant=?)"},
		h.sql.CountTenantLimited: {"COVERING INDEX task_limited (limited=? AND tenant=? AND state=?)"},
		h.sql.CountTenantPlaces:  {"INDEX limit_place_name (name=? AND tenant=?)", byID},
		h.sql.KeepPlace:          {byID},
		h.sql.FreePlaces:         {"INDEX limit_place_name (name=?)"},
		h.sql.CutPlaces:          {"INDEX limit_place_name (name=?)"},
		h.sql.CountPlaces:        {"INDEX limit_place_name (name=?)", byID},
		h.sql.NextSchedule:       {"USING INDEX schedule_next (next_at>?)"},
		h.sql.DueSchedules:       {"USING INDEX schedule_next (next_at>? AND next_at<?)", "SEARCH t USING INTEGER PRIMARY KEY", "SEARCH a USING INTEGER PRIMARY KEY"},
		h.sql.FiringsSeen:        {"SEARCH schedule USING INDEX sqlite_autoindex_schedule_1 (name=?)"},
		h.sql.InsertFirings:      {"SEARCH schedule USING INDEX sqlite_autoindex_schedule_1 (name=?)"},
		h.sql.MoveSchedules:      {"SEARCH schedule USING INDEX sqlite_autoindex_schedule_1 (name=?)"},
		h.sql.MarkInvalid:        {"SEARCH schedule USING INDEX sqlite_autoindex_schedule_1 (name=?)"},
		h.sql.PutDeclarers: {
			"SEARCH schedule_declaration USING COVERING INDEX sqlite_autoindex_schedule_declaration_1 (name=? AND hash=?)",
		},
		h.sql.ChangeDeclared: {
			"SEARCH schedule USING INDEX sqlite_autoindex_schedule_1 (name=?)", "SEARCH d USING INTEGER PRIMARY KEY (rowid=?)",
		},
		h.sql.ParkSchedule:   {"SEARCH schedule USING INDEX sqlite_autoindex_schedule_1 (name=?)"},
		h.sql.UnparkSchedule: {"SEARCH schedule USING INDEX sqlite_autoindex_schedule_1 (name=?)"},
		h.sql.LookPlan:       {"SEARCH c USING INDEX chunk_range_place (plan=?)", "SEARCH t USING INTEGER PRIMARY KEY"},
		h.sql.ChunkObstacles: {
			"SEARCH c USING INDEX chunk_range_place (plan=? AND pass<?)", "SEARCH t USING INTEGER PRIMARY KEY", "SEARCH a USING INTEGER PRIMARY KEY",
		},
		h.sql.FinishedChunks: {"SEARCH c USING INDEX chunk_range_place (plan=?)", "SEARCH a USING INTEGER PRIMARY KEY"},
		h.sql.BlockedSequences: {
			"COVERING INDEX sequence_failure_name", "SEARCH a USING INTEGER PRIMARY KEY",
			"COVERING INDEX task_sequence_rollback (type=? AND sequence=?)", "COVERING INDEX task_sequence (type=? AND sequence=? AND id<?)",
		},
		h.sql.FailedRollbacks: {"SCAN task_archive USING INDEX task_archive_rollback_failed"},
		h.sql.StalledTypes:    {"SEARCH t USING INTEGER PRIMARY KEY", "SEARCH a USING INTEGER PRIMARY KEY", "SCAN e USING INDEX sqlite_autoindex_attempt_1"},
	}
	sorts[h.sql.StalledTypes] = true
	plans[h.sql.FlowLimits] = []string{"INDEX task_limited (limited=?", "INDEX limit_place_name (name=?)", "SEARCH r USING INTEGER PRIMARY KEY"}
	plans[h.sql.FlowTenantUse] = []string{
		"COVERING INDEX task_limited (limited=? AND tenant=? AND state=?)", "INDEX limit_place_name (name=? AND tenant=?)",
		"SEARCH tenant_bucket USING PRIMARY KEY (name=? AND tenant=?)",
	}
	plans[h.sql.FlowLocks] = []string{
		"SCAN task USING COVERING INDEX task_held", "COVERING INDEX task_held (lock>?)", "INDEX lock_note_until (name=? AND until>?)", "INDEX task_held (lock=?)",
	}
	sorts[h.sql.FlowLimits], sorts[h.sql.FlowLocks] = true, true // of few
	for index, where := range flowTenantIndexes() {
		filled, err := h.sql.FlowTenants.FillAll("{index}", "INDEXED BY "+index, "{where}", where)
		require.NoError(t, err)
		plans[filled], sorts[filled] = []string{"COVERING INDEX " + index + " (type=? AND <expr>=? AND tenant>?)", "COVERING INDEX " + index + " (type>?)"}, true
	}
	for index, where := range waitingClasses() {
		for _, q := range []*sqltext.Query{h.sql.UndeclaredTypes, h.sql.CountUndeclared} {
			needs := []string{"SCAN task USING COVERING INDEX " + index, "SEARCH task USING COVERING INDEX " + index + " (type>?)"}
			if q == h.sql.CountUndeclared {
				needs = []string{"INDEX " + index + " (type=?)"}
			}
			filled, err := q.Fill("{where}", where)
			require.NoError(t, err)
			filled, err = filled.Fill("{index}", "INDEXED BY "+index)
			require.NoError(t, err)
			plans[filled] = needs
		}
	}
	sorts[h.sql.FindSequences] = true // those of a page
	for _, from := range sources() {
		for q, need := range map[*sqltext.Query]string{
			h.sql.WaitingTypes: "SEARCH task USING COVERING INDEX " + from.index + " (type>?)", h.sql.CountOfType: "INDEX " + from.index + " (type=?)",
			h.sql.HeldTypes: "SCAN task USING INDEX " + from.index,
		} {
			if (q == h.sql.HeldTypes) == from.typed {
				continue
			}
			filled, err := from.fill(q)
			require.NoError(t, err)
			plans[filled], sorts[filled] = []string{need}, q == h.sql.HeldTypes
		}
	}
	for name, q := range loadQueries() {
		if strings.Contains(q.Text, "INDEXED") {
			require.Contains(t, plans, q, "%s names an index, and no plan is expected of it", name)
		}
	}
	for _, counted := range []bool{false, true} {
		if counted { // statistics of an operator's ANALYZE must not mislead the planner
			require.NoError(t, h.exec(t, "ANALYZE"))
		}
		for q, needs := range plans {
			plan := h.plan(t, q.Text)
			for _, need := range needs {
				require.Contains(t, plan, need, "%s\n%s", q.Name, plan)
			}
			for line := range strings.Lines(plan) {
				for _, table := range []string{"task", "t", "task_archive", "attempt", "batch", "operation", "policy", "lease", "old", "schedule"} {
					require.NotEqual(t, "SCAN "+table, strings.TrimSpace(line), "%s\n%s", q.Name, plan)
				}
				if !sorts[q] {
					require.NotContains(t, line, "USE TEMP B-TREE", "%s\n%s", q.Name, plan)
				}
			}
		}
	}
}

// Every statement fits the schema, also those that no test happens to run.
func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for name, q := range loadQueries() {
		t.Run(name, func(t *testing.T) {
			filled, err := anyway(q)
			require.NoError(t, err)
			h.plan(t, filled.Text)
		})
	}
}

// Looking for few of many finished rows reads few of them.
func TestPlansOfLists(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, c := range []struct {
		filter store.TaskFilter
		needs  string
	}{
		{store.TaskFilter{Type: "a"}, "SEARCH task_archive USING INDEX task_archive_type (type=?"},
		{store.TaskFilter{Type: "a", Before: 7}, "SEARCH task_archive USING INDEX task_archive_type (type=? AND rowid<?)"},
		{store.TaskFilter{Key: "k"}, "SEARCH task_archive USING INDEX task_archive_key (key=?)"},
		{store.TaskFilter{States: []task.State{task.StateFailed}}, "task_archive USING INDEX task_archive_unsuccessful"},
		{store.TaskFilter{Batch: 7, States: []task.State{task.StateFailed}}, "task_archive USING INDEX task_archive_batch_unsuccessful (batch_id=?)"},
		{store.TaskFilter{Batch: 7}, "SEARCH task_archive USING INDEX task_archive_batch (batch_id=?)"},
		{store.TaskFilter{Before: 7}, "SEARCH task_archive USING INTEGER PRIMARY KEY (rowid<?)"},
	} {
		q, _, err := h.sql.listQuery(h.sql.ListFinished, c.filter, nil)
		require.NoError(t, err)
		plan := h.plan(t, q.Text)
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
		hd := newHeads(tx.sql, claimOf(1, 1).Wants[0], "", "")
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
