-- Returns a task.
SELECT {info_columns}, coalesce(t.output, '')
FROM {schema}.tasks AS t LEFT JOIN {schema}.agent AS a ON a.session = t.session
WHERE t.id = @id
