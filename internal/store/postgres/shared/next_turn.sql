-- The row of a sequence (s) that is next: the last of those that are to be rolled back, or else the first, by id. NULL where there is none,
-- or where a failure that comes before it blocks the sequence. The first is found once (AS e): to look it up by its id as well took most of
-- the time.
SELECT coalesce(
    (SELECT t.id FROM {schema}.task AS t
        WHERE t.type = s.type AND t.sequence = s.name AND t.state = 'rollback_pending' ORDER BY t.type DESC, t.sequence DESC, t.id DESC LIMIT 1),
    (SELECT e.id FROM (
            SELECT r.id FROM {schema}.task AS r WHERE r.type = s.type AND r.sequence = s.name ORDER BY r.type, r.sequence, r.id LIMIT 1
        ) AS e
        WHERE coalesce(e.id < (
            SELECT f.task_id FROM {schema}.sequence_failure AS f WHERE f.type = s.type AND f.name = s.name
            ORDER BY f.type, f.name, f.task_id LIMIT 1
        ), true) OR (SELECT p.on_failure FROM {schema}.sequence_rule AS p WHERE p.type = s.type) IS NOT DISTINCT FROM 'continue' LIMIT 1))
