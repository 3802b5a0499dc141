-- Turns of sequences. A row with a sequence comes as a candidate, which claims look at. The first claim that meets a row of a sequence chooses
-- its head, which alone may start, and holds the others back; once the head has ended for good, a promotion or a claim chooses the next.

-- name: turn
-- The head of a sequence, if it is live and waits for no other row, and whether nothing of one that has ended can be at work any more.
SELECT (SELECT task.id FROM task WHERE task.id = h.task_id AND task.type = h.type AND task.sequence = h.name
        AND ifnull(task.held, '') <> 'after'),
    NOT EXISTS (SELECT 1 FROM sequence_note AS o INDEXED BY sequence_note_until
        WHERE o.until IS NOT NULL AND o.type = @type AND o.name = @name AND o.until > @now)
FROM (SELECT 1) LEFT JOIN sequence_holder AS h ON h.type = @type AND h.name = @name;

-- name: next_turn
-- The row that is next: the last of those that are to be rolled back, or else the first, by id. NULL where there is none, or where a failure
-- that comes before it blocks the sequence. INDEXED BY: each is one step.
SELECT coalesce(
    (SELECT id FROM task INDEXED BY task_sequence_rollback
        WHERE sequence IS NOT NULL AND type = @type AND sequence = @name AND state = 'rollback_pending' ORDER BY id DESC LIMIT 1),
    (SELECT first.id FROM (
            SELECT id FROM task INDEXED BY task_sequence WHERE sequence IS NOT NULL AND type = @type AND sequence = @name ORDER BY id LIMIT 1
        ) AS first
        WHERE ifnull((SELECT on_failure FROM sequence_rule WHERE type = @type), 'block') = 'continue'
           OR first.id < ifnull((SELECT min(task_id) FROM sequence_failure INDEXED BY sequence_failure_name
                WHERE type = @type AND name = @name), 9223372036854775807)));

-- name: put_turn
INSERT INTO sequence_holder (type, name, task_id) VALUES (@type, @name, @id)
ON CONFLICT (type, name) DO UPDATE SET task_id = excluded.task_id;

-- name: free_turn
UPDATE task SET held = NULL WHERE id = @id AND held = 'sequence';

-- name: hold_turns
UPDATE task SET held = 'sequence' WHERE id IN (SELECT value FROM json_each(@ids));

-- name: due_turn_notes
SELECT id, type, name FROM sequence_note WHERE until IS NULL OR until <= @now ORDER BY id LIMIT @limit;

-- name: next_turn_note
-- When the next note is due.
SELECT min(until) FROM sequence_note INDEXED BY sequence_note_until WHERE until IS NOT NULL AND until > @now;

-- name: any_turn_note
SELECT EXISTS (SELECT 1 FROM sequence_note WHERE until IS NULL OR until <= @now);

-- name: delete_turn_notes
DELETE FROM sequence_note WHERE id IN (SELECT value FROM json_each(@ids));

-- name: forget_failures
-- Where failures block nothing they are forgotten.
DELETE FROM sequence_failure WHERE type = @type AND name = @name
    AND EXISTS (SELECT 1 FROM sequence_rule WHERE type = @type AND on_failure = 'continue');

-- name: forget_turn
-- Forgets a sequence that nothing is left of.
DELETE FROM sequence_holder WHERE type = @type AND name = @name AND task_id IS NULL
    AND NOT EXISTS (SELECT 1 FROM task INDEXED BY task_sequence WHERE sequence IS NOT NULL AND task.type = @type AND sequence = @name)
    AND NOT EXISTS (SELECT 1 FROM sequence_failure AS f INDEXED BY sequence_failure_name WHERE f.type = @type AND f.name = @name);

-- name: any_sequence_rule
SELECT EXISTS (SELECT 1 FROM sequence_rule);

-- name: put_sequence_declarations
-- Stores declarations that were never loaded before.
INSERT INTO sequence_declaration (type, on_failure)
SELECT json_extract(json_each.value, '$[0]'), json_extract(json_each.value, '$[1]') FROM json_each(@list) WHERE true
ON CONFLICT (type, on_failure) DO NOTHING;

-- name: forget_sequence_declarers
-- Forgets what a session no longer declares, and what sessions declared that are not known.
DELETE FROM sequence_declarer WHERE session = @session AND number NOT IN (
        SELECT d.number FROM json_each(@list) CROSS JOIN sequence_declaration AS d
        WHERE d.type = json_extract(json_each.value, '$[0]') AND d.on_failure = json_extract(json_each.value, '$[1]'))
    OR session NOT IN (SELECT agent.session FROM agent);

-- name: put_sequence_declarers
INSERT INTO sequence_declarer (session, number)
SELECT @session, d.number FROM json_each(@list) CROSS JOIN sequence_declaration AS d
WHERE d.type = json_extract(json_each.value, '$[0]') AND d.on_failure = json_extract(json_each.value, '$[1]')
ON CONFLICT (session, number) DO NOTHING;

-- name: put_sequence_rule
-- Puts in force the newest declarations of present sessions.
INSERT INTO sequence_rule (type, declared, on_failure)
SELECT d.type, max(d.number), d.on_failure FROM agent AS a JOIN sequence_declarer AS r ON r.session = a.session
JOIN sequence_declaration AS d ON d.number = r.number WHERE a.present_until > @now GROUP BY d.type
ON CONFLICT (type) DO UPDATE SET declared = excluded.declared, on_failure = excluded.on_failure;

-- name: remove_sequence_rule
-- What no present session declares goes once one is present that knows the type.
DELETE FROM sequence_rule WHERE NOT EXISTS (
        SELECT 1 FROM agent AS a JOIN sequence_declarer AS r ON r.session = a.session
        JOIN sequence_declaration AS d ON d.number = r.number WHERE a.present_until > @now AND d.type = sequence_rule.type)
    AND EXISTS (SELECT 1 FROM agent AS a, json_each(a.types) AS k WHERE a.present_until > @now AND k.value = sequence_rule.type);

-- name: note_continued
-- Has promotions look at what is blocked by failures that block nothing any more.
INSERT INTO sequence_note (type, name)
SELECT DISTINCT f.type, f.name FROM sequence_failure AS f JOIN sequence_rule AS s ON s.type = f.type AND s.on_failure = 'continue'
WHERE NOT EXISTS (SELECT 1 FROM sequence_note AS n WHERE n.type = f.type AND n.name = f.name);

-- name: find_sequences
-- Finds the sequences of the rows and of the failures that block, @limit of each at most, in the order of their types and names, from @type and
-- @from on; of @only, if that is not ''. Each walk goes from one sequence to the next, by a look in the index or two, since a look for a pair behind
-- that of a row would pass over the whole type; that of the failures skips types whose failures block nothing.
WITH RECURSIVE live (id, n) AS (
    SELECT (SELECT task.id FROM task INDEXED BY task_sequence
        WHERE sequence IS NOT NULL AND (type, sequence) >= (@type, @from) ORDER BY type, sequence LIMIT 1), 1
    UNION ALL
    SELECT ifnull(
        (SELECT task.id FROM task INDEXED BY task_sequence
            WHERE task.sequence IS NOT NULL AND task.type = t.type AND task.sequence > t.sequence ORDER BY task.sequence LIMIT 1),
        (SELECT task.id FROM task INDEXED BY task_sequence
            WHERE task.sequence IS NOT NULL AND task.type > t.type ORDER BY task.type, task.sequence LIMIT 1)), live.n + 1
    FROM live CROSS JOIN task AS t ON t.id = live.id WHERE live.n < @limit AND (@only = '' OR t.type = @only)
), failed (id, n) AS (
    SELECT (SELECT s.task_id FROM sequence_failure AS s INDEXED BY sequence_failure_name
        WHERE (s.type, s.name) >= (@type, @from) ORDER BY s.type, s.name LIMIT 1), 1
    UNION ALL
    SELECT ifnull(iif(EXISTS (SELECT 1 FROM sequence_rule AS p WHERE p.type = f.type AND p.on_failure = 'continue'),
        NULL,
        (SELECT s.task_id FROM sequence_failure AS s INDEXED BY sequence_failure_name
            WHERE s.type = f.type AND s.name > f.name ORDER BY s.name LIMIT 1)),
        (SELECT s.task_id FROM sequence_failure AS s INDEXED BY sequence_failure_name WHERE s.type > f.type ORDER BY s.type, s.name LIMIT 1)),
        failed.n + NOT EXISTS (SELECT 1 FROM sequence_rule AS p WHERE p.type = f.type AND p.on_failure = 'continue')
    FROM failed CROSS JOIN sequence_failure AS f ON f.task_id = failed.id WHERE failed.n < @limit + 1 AND (@only = '' OR f.type = @only)
)
SELECT type, name FROM (
    SELECT t.type, t.sequence AS name FROM live CROSS JOIN task AS t ON t.id = live.id
    UNION
    SELECT f.type, f.name FROM failed CROSS JOIN sequence_failure AS f ON f.task_id = failed.id
    WHERE NOT EXISTS (SELECT 1 FROM sequence_rule AS p WHERE p.type = f.type AND p.on_failure = 'continue')
) WHERE @only = '' OR type = @only ORDER BY type, name LIMIT @limit;

-- name: show_sequence
-- A sequence, by the rule of the view sequences. Of its rows and failures it counts @most at most.
SELECT @type, @name, CASE WHEN k.blocked THEN 'blocked' WHEN t.state IN ('running', 'rollback_running') THEN 'running' ELSE 'waiting' END,
    iif(k.blocked, k.failed, t.id), k.live,
    CASE WHEN k.blocked THEN (SELECT a.finished_at FROM task_archive AS a WHERE a.id = k.failed)
        WHEN t.state IN ('running', 'rollback_running') THEN t.claimed_at ELSE t.run_at END,
    k.failures
FROM (
    SELECT g.head, g.back, g.least, g.failed, g.live, g.failures,
        g.head IS NULL AND g.back IS NULL AND g.failed IS NOT NULL AND ifnull(g.failed < g.least, 1)
            AND NOT EXISTS (SELECT 1 FROM sequence_rule AS p WHERE p.type = @type AND p.on_failure = 'continue') AS blocked
    FROM (
        SELECT
            (SELECT o.id FROM sequence_holder AS h CROSS JOIN task AS o ON o.id = h.task_id AND o.type = h.type AND o.sequence = h.name
                WHERE h.type = @type AND h.name = @name) AS head,
            (SELECT id FROM task INDEXED BY task_sequence WHERE sequence IS NOT NULL AND type = @type AND sequence = @name ORDER BY id LIMIT 1) AS least,
            (SELECT id FROM task INDEXED BY task_sequence_rollback
                WHERE sequence IS NOT NULL AND type = @type AND sequence = @name AND state = 'rollback_pending' ORDER BY id DESC LIMIT 1) AS back,
            (SELECT min(task_id) FROM sequence_failure INDEXED BY sequence_failure_name WHERE type = @type AND name = @name) AS failed,
            (SELECT count(*) FROM (
                SELECT 1 FROM task INDEXED BY task_sequence WHERE sequence IS NOT NULL AND type = @type AND sequence = @name LIMIT @most)) AS live,
            (SELECT count(*) FROM (
                SELECT 1 FROM sequence_failure INDEXED BY sequence_failure_name WHERE type = @type AND name = @name LIMIT @most)) AS failures
    ) AS g
) AS k LEFT JOIN task AS t ON t.id = ifnull(k.head, ifnull(k.back, k.least))
WHERE k.live > 0 OR k.blocked;

-- name: sequence_rows
-- The next rows of a sequence.
SELECT id FROM task INDEXED BY task_sequence WHERE sequence IS NOT NULL AND type = @type AND sequence = @name ORDER BY id LIMIT @limit;

-- name: sequence_skip
INSERT INTO sequence_skip (type, name, by) VALUES (@type, @name, @by);

-- name: sequence_retry
INSERT INTO sequence_retry (type, name, by) VALUES (@type, @name, @by);

-- name: sequence_cancel
INSERT INTO sequence_cancel (type, name, by) VALUES (@type, @name, @by);

-- name: count_sequence
-- How many rows of a sequence a cancellation is for, of the next thousand.
SELECT count(*) FROM (
    SELECT id FROM task INDEXED BY task_sequence
    WHERE sequence IS NOT NULL AND type = @type AND sequence = @name AND state IN ('pending', 'retry_pending') ORDER BY id LIMIT 1000);

-- name: any_sequence
-- Whether live rows have one. INDEXED BY: it is one step.
SELECT EXISTS (SELECT 1 FROM task INDEXED BY task_sequence WHERE sequence IS NOT NULL);

-- name: note_turns
{note_turn which=IN(SELECT(value)FROM(json_each(@ids)))};

-- name: note_failures
{note_failure which=IN(SELECT(value)FROM(json_each(@ids)))};
