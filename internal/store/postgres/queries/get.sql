-- Returns a task.
SELECT {info_columns}, coalesce(t.output, ''),
    coalesce((SELECT f.id FROM {schema}.follow AS f
        WHERE f.type = t.type AND f.key = t.key AND t.finished_at IS NULL AND t.follows IS NULL), 0)
FROM {schema}.tasks AS t {ran_on}
WHERE t.id = @id
