-- INSERT INTO complete (id, fence, result) ends a run as succeeded, or a rollback as rolled back, where the task is held with
-- that fence. A repeat does nothing, even after the completed run was rolled back.
CREATE VIEW complete AS
    SELECT id, fence, result FROM task WHERE state IN ('running', 'rollback_running');

CREATE TRIGGER complete_insert INSTEAD OF INSERT ON complete
BEGIN
    SELECT RAISE(ABORT, 'result must be JSON') WHERE NEW.result IS NOT NULL AND NOT json_valid(NEW.result);
    SELECT RAISE(ABORT, 'result must be 64 KiB at most') WHERE length(CAST(NEW.result AS BLOB)) > 65536;
    SELECT RAISE(ABORT, 'the task is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM task WHERE id = NEW.id AND fence = NEW.fence
                      AND state IN ('running', 'rollback_running') AND claim > 0)
      AND NOT EXISTS (SELECT 1 FROM task_archive WHERE id = NEW.id AND fence = NEW.fence + 1 AND outcome = 'succeeded')
      AND NOT EXISTS (SELECT 1 FROM attempt WHERE task_id = NEW.id AND fence = NEW.fence AND outcome = 'succeeded');
    -- As when an agent settles it.
    INSERT INTO attempt (task_id, fence, ran_fence, session, policy, phase, attempt, outcome, result, state, started_at, ended_at)
    SELECT id, fence, fence, session, policy, phase, attempt, 'succeeded', json(NEW.result), state, claimed_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM (SELECT id, fence, session, policy, iif(state = 'running', 'run', 'rollback') AS phase, attempt, claimed_at,
              iif(state = 'running', 'succeeded', 'rolled_back') AS state
          FROM task WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running')) AS ended
    WHERE NOT ({first_success of=ended.});
    UPDATE batch SET (succeeded, rolled_back, rolling_back, attempts) = (
        SELECT succeeded + (task.state = 'running'), rolled_back + (task.state <> 'running'),
               rolling_back - (task.state <> 'running'), attempts + 1
        FROM task WHERE task.id = NEW.id)
    WHERE id = (SELECT batch_id FROM task
                WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running'));
    -- The result of a rollback is in the history only: the row keeps that of its run.
    INSERT INTO archive (id, state, attempt, deferrals, ever_started, outcome, new_result, result, started_at, finished_at, after_lease,
        on_failed)
    SELECT id, state, attempt, 0, 1, 'succeeded',
           {first_success of=ended.} OR state = 'succeeded' AND NEW.result IS NOT NULL,
           json(NEW.result), claimed_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), 0,
           -- A task has failed that is rolled back by this end: Go's task.FailedForGood; a check compares the two.
           iif(state = 'rolled_back' AND ifnull(cause, '') NOT IN ('succeeded', 'cancelled'),
               (SELECT json_extract(policy.body, '$.on_failed') FROM policy WHERE policy.hash = ended.policy), NULL)
    FROM (SELECT id, attempt, claimed_at, cause, policy, iif(state = 'running', 'succeeded', 'rolled_back') AS state
          FROM task WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running')) AS ended;
END;
