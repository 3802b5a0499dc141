-- name: promote_turns
-- Passes on turns that have ended. The function's parts have to see what has committed since it began.
SELECT promoted, noted, missed, coalesce(next_us, -1), started FROM {schema}.promote_turns(@most, @ask::jsonb)

-- name: turn_notes
-- Whether there may be something for promote_turns to do: mostly there is nothing.
SELECT EXISTS (SELECT FROM {schema}.sequence_note AS n)

-- name: declare_sequences
SELECT {schema}.declare_sequences(@session, @types::text[], @rules::text[])

-- name: find_sequences
-- Finds the sequences of the rows and of the failures that block, @limit of each at most, in the order of their types and names, from @type and
-- @from on; of @only, if that is not ''. Each walk goes from one sequence to the next, by a look in the index; that of the failures skips types
-- whose failures block nothing.
WITH RECURSIVE live (type, name, n) AS (
    (SELECT t.type, t.sequence, 1 FROM {schema}.task AS t
     WHERE t.sequence IS NOT NULL AND (t.type, t.sequence) >= (@type::text, @from::text) ORDER BY t.type, t.sequence LIMIT 1)
    UNION ALL
    SELECT f.type, f.name, k.n + 1 FROM live AS k CROSS JOIN LATERAL (
        SELECT t.type, t.sequence AS name FROM {schema}.task AS t
        WHERE t.sequence IS NOT NULL AND (t.type, t.sequence) > (k.type, k.name) ORDER BY t.type, t.sequence LIMIT 1
    ) AS f WHERE k.n < @limit::integer AND (@only::text = '' OR k.type = @only)
), failed (type, name, blocks, n) AS (
    (SELECT s.type, s.name, NOT EXISTS (SELECT FROM {schema}.sequence_rule AS p WHERE p.type = s.type AND p.on_failure = 'continue'), 1
     FROM {schema}.sequence_failure AS s WHERE (s.type, s.name) >= (@type::text, @from::text) ORDER BY s.type, s.name LIMIT 1)
    UNION ALL
    SELECT f.type, f.name, NOT EXISTS (SELECT FROM {schema}.sequence_rule AS p WHERE p.type = f.type AND p.on_failure = 'continue'), k.n + k.blocks::integer
    FROM failed AS k CROSS JOIN LATERAL (
        (SELECT s.type, s.name FROM {schema}.sequence_failure AS s
         WHERE k.blocks AND (s.type, s.name) > (k.type, k.name) ORDER BY s.type, s.name LIMIT 1)
        UNION ALL
        (SELECT s.type, s.name FROM {schema}.sequence_failure AS s WHERE NOT k.blocks AND s.type > k.type ORDER BY s.type, s.name LIMIT 1)
    ) AS f WHERE k.n < @limit::integer + 1 AND (@only::text = '' OR k.type = @only)
)
SELECT a.type, a.name FROM (
    SELECT l.type, l.name FROM live AS l UNION SELECT f.type, f.name FROM failed AS f WHERE f.blocks
) AS a WHERE @only::text = '' OR a.type = @only ORDER BY a.type, a.name LIMIT @limit::integer

-- name: show_sequences
-- The sequences of those types and names, by the rule of the view sequences. Of the rows and failures of each it counts @most at most.
SELECT k.type, k.name, CASE WHEN k.blocked THEN 'blocked' WHEN t.state IN ('running', 'rollback_running') THEN 'running' ELSE 'waiting' END,
    CASE WHEN k.blocked THEN k.failed ELSE t.id END, k.live,
    CASE WHEN k.blocked THEN (SELECT a.finished_at FROM {schema}.task_archive AS a WHERE a.id = k.failed LIMIT 1)
        WHEN t.state IN ('running', 'rollback_running') THEN t.claimed_at ELSE t.run_at END,
    k.failures
FROM (
    SELECT u.type, u.name, u.place, g.head, g.back, g.least, g.failed,
        g.head IS NULL AND g.back IS NULL AND g.failed IS NOT NULL AND coalesce(g.failed < g.least, true)
            AND NOT EXISTS (SELECT FROM {schema}.sequence_rule AS p WHERE p.type = u.type AND p.on_failure = 'continue') AS blocked,
        (SELECT count(*) FROM (
            SELECT FROM {schema}.task AS r WHERE r.sequence IS NOT NULL AND r.type = u.type AND r.sequence = u.name
            ORDER BY r.type, r.sequence, r.id LIMIT @most::integer) AS x) AS live,
        (SELECT count(*) FROM (SELECT FROM {schema}.sequence_failure AS f WHERE f.type = u.type AND f.name = u.name LIMIT @most::integer) AS x) AS failures
    FROM unnest(@types::text[], @names::text[]) WITH ORDINALITY AS u (type, name, place)
    CROSS JOIN LATERAL (
        SELECT
            (SELECT o.id FROM {schema}.sequence_holder AS h JOIN {schema}.task AS o ON o.id = h.task_id
                AND o.type = h.type AND o.sequence = h.name WHERE h.type = u.type AND h.name = u.name) AS head,
            (SELECT r.id FROM {schema}.task AS r WHERE r.sequence IS NOT NULL AND r.type = u.type AND r.sequence = u.name
             ORDER BY r.type, r.sequence, r.id LIMIT 1) AS least,
            (SELECT r.id FROM {schema}.task AS r WHERE r.sequence IS NOT NULL AND r.state = 'rollback_pending' AND r.type = u.type AND r.sequence = u.name
             ORDER BY r.type DESC, r.sequence DESC, r.id DESC LIMIT 1) AS back,
            (SELECT f.task_id FROM {schema}.sequence_failure AS f WHERE f.type = u.type AND f.name = u.name
             ORDER BY f.type, f.name, f.task_id LIMIT 1) AS failed
    ) AS g
) AS k
LEFT JOIN LATERAL (
    SELECT r.id, r.state, r.claimed_at, r.run_at FROM {schema}.task AS r WHERE r.id = coalesce(k.head, k.back, k.least) LIMIT 1
) AS t ON true
WHERE k.live > 0 AND t.id IS NOT NULL OR k.blocked ORDER BY k.place

-- name: sequence_rows
-- The next rows of a sequence.
SELECT t.id FROM {schema}.task AS t WHERE t.type = @type AND t.sequence = @name ORDER BY t.type, t.sequence, t.id LIMIT @limit

-- name: sequence_skip
SELECT {schema}.sequence_skip(@type, @name, nullif(@task::bigint, 0), @by)::text

-- name: sequence_retry
SELECT {schema}.sequence_retry(@type, @name, nullif(@task::bigint, 0), @by)::text

-- name: sequence_cancel
SELECT {schema}.sequence_cancel(@type, @name, by => @by)::text
