package sqlite

import (
	"database/sql"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// rejectAtOnce is how many rows are rejected in one claim.
const rejectAtOnce = "100"

// tooLargeQuery lists due rows of one type and priority that no agent takes.
func tooLargeQuery(p task.Phase, regions int) string {
	return "SELECT id, octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0), " +
		"ifnull(octet_length(checkpoint), 0) FROM (" +
		level(p, regions, "id, payload, rollback_payload, result, checkpoint", " AND run_at <= ?4 AND "+tooLarge) +
		") LIMIT " + rejectAtOnce
}

// rejectQuery ends a row that no agent takes. Its documents are not kept, which would take as much memory as they are long,
// twice over; an empty payload is no JSON, so the row cannot be retried by mistake.
const rejectQuery = `
	INSERT INTO task_archive (
		id, type, priority, region, key, run_at, traceparent, created_by, max_attempts, created_at, session, claim, policy,
		claimed_at, deadline, progress, message, cancel_asked, cancel_by, batch_id, cause, round, attempt, deferrals, ever_started,
		payload, state, fence, outcome, error, finished_at)
	SELECT id, type, priority, region, key, run_at, traceparent, created_by, max_attempts, created_at, session, claim, policy,
		claimed_at, deadline, progress, message, cancel_asked, cancel_by, batch_id, cause, round, attempt, deferrals, ever_started,
		'', iif(state = 'rollback_pending', 'rollback_failed', 'failed'), ` + nextFence + `, 'rejected', ?2, ?3
	FROM task WHERE id = ?1`

const rejectedQuery = `
	UPDATE batch SET (failed, failures, undoing, rollback_failed) = (
		SELECT failed + (gone.state = 'failed'), failures + (gone.state = 'failed'),
			undoing - (gone.state <> 'failed'), rollback_failed + (gone.state <> 'failed')
		FROM task_archive AS gone WHERE gone.id = ?1)
	WHERE id = (SELECT batch_id FROM task_archive WHERE id = ?1)`

// rejectTooLarge ends due rows of one type and priority that no agent takes, without reading what is large of them. Only
// what has got around the triggers can be so large.
func (t *tx) rejectTooLarge(p task.Phase, regions int, typ, region string, priority int, now string) error {
	why := map[int64]string{}
	err := t.query(func(r *sql.Rows) error {
		var id, payload, rollback, result, checkpoint int64
		if err := r.Scan(&id, &payload, &rollback, &result, &checkpoint); err != nil {
			return err
		}
		for _, d := range []struct {
			what  string
			bytes int64
		}{{"checkpoint", checkpoint}, {"result", result}, {"rollback payload", rollback}, {"payload", payload}} {
			if d.bytes > store.MaxMaxPayload {
				why[id] = store.Unfit(d.what, d.bytes) + "; it was not kept"
			}
		}
		return nil
	}, tooLargeQuery(p, regions), typ, region, priority, now)
	if err != nil {
		return err
	}
	for id, reason := range why {
		for _, step := range []struct {
			text string
			args []any
		}{{rejectQuery, []any{id, reason, now}}, {rejectedQuery, []any{id}}, {"DELETE FROM task WHERE id = ?", []any{id}}} {
			if _, err := t.exec(step.text, step.args...); err != nil {
				return err
			}
		}
	}
	return nil
}
