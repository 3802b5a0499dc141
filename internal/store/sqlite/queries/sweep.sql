-- name: holders
-- The sessions that hold rows, with their last heartbeats, and whether something of theirs has expired: a lease, or the session
-- where not all of its rows are detached. A session that has left has no heartbeat here.
SELECT t.session, a.seen_at, a.present_until,
    max(ifnull(t.lease_until <= @now, 1))
        OR max(t.detached IS NULL) AND ifnull({is_present of=a.}, 0) = 0
FROM task AS t INDEXED BY task_running
    LEFT JOIN agent AS a ON a.session = t.session AND a.present_until > a.seen_at
WHERE t.state IN ('running', 'rollback_running')
GROUP BY t.session;

-- name: expired
-- Rows whose lease has expired or whose session is not present, and which of the two it is. It finds nothing for a session
-- (@session) that is not present itself: then the clock may have jumped, and every session looks dead. Rows of
-- another session with a presence longer than @calm seconds, the time since the reaper's start or last clock jump, are spared
-- for the same reason. So are those of a session that is not present and has not left, unless its last heartbeat is in @silent
-- (objects with session and seen): the reaper has seen no other one for the session's whole presence by its own clock. A
-- detached row depends on its lease alone.
--
-- It reads every running row: there are no more of them than agents have workers, and detached tasks.
SELECT t.id, a.session IS NOT NULL AS present, t.detached IS NOT NULL AS detached
FROM task AS t INDEXED BY task_running
    LEFT JOIN agent AS a ON a.session = t.session AND {is_present of=a.}
WHERE t.state IN ('running', 'rollback_running')
    AND EXISTS (SELECT 1 FROM agent AS own WHERE own.session = @session AND {is_present of=own.})
    AND (ifnull(t.lease_until <= @now, 1) OR a.session IS NULL AND t.detached IS NULL AND NOT EXISTS (
        SELECT 1 FROM agent AS doubtful WHERE doubtful.session = t.session
            AND doubtful.present_until > doubtful.seen_at
            AND NOT EXISTS (SELECT 1 FROM json_each(@silent) AS s
                WHERE json_extract(s.value, '$.session') = doubtful.session AND json_extract(s.value, '$.seen') = doubtful.seen_at)))
    AND NOT EXISTS (SELECT 1 FROM agent AS long WHERE long.session = t.session AND long.session <> @session
        AND (julianday(long.present_until) - julianday(long.seen_at)) * 86400 > @calm + 0.001)
ORDER BY t.id LIMIT @limit;

-- name: reap
-- Claims such rows for the session, to decide what becomes of them. That needs no documents. The fence: see claim_set.
UPDATE task SET fence = max(min(fence, 4611686018426339328), 0) + 1, session = @session, claim = 0, lease_until = @until,
    ran_session = iif(claim = 0, ran_session, session), -- also where its reaper has died
    detached = NULL, ping_due = NULL
WHERE id IN (SELECT value FROM json_each(@ids))
RETURNING {reaped_columns};

-- name: adoptable
-- The row that an attempt with the fence holds, or that a reaper took from it: by whom it is held, whether it is detached,
-- whether that is a reaper, and whether the session is present. NOT INDEXED: the planner must not prefer task_running to the
-- id.
SELECT t.session, t.detached IS NOT NULL, t.claim = 0, a.session IS NOT NULL
FROM task AS t NOT INDEXED LEFT JOIN agent AS a ON a.session = t.session AND {is_present of=a.}
WHERE t.id = @id AND t.state IN ('running', 'rollback_running')
    AND (t.fence = @fence AND t.claim > 0 OR t.fence = @fence + 1 AND t.claim = 0);

-- name: adopt
-- reap of one row, by the fence of its attempt.
UPDATE task SET fence = @fence + 1, session = @session, claim = 0, lease_until = @until, detached = NULL, ping_due = NULL,
    ran_session = iif(claim = 0, ran_session, session)
WHERE id = @id
RETURNING {reaped_columns};

-- name: attempt_failed
-- Whether an attempt has ended as failed or rejected. The history has all of those.
SELECT EXISTS (SELECT 1 FROM attempt WHERE task_id = @id AND ran_fence = @fence AND outcome IN ('failed', 'rejected'));
