-- Reads back a claim whose reply was lost, or left the documents out: what it took and the session still holds. The documents
-- come as taskRow.documents reads them, and after them why no agent takes the row, if one of them is too large: such a
-- row is read without it, to be rejected. fit and unfit are slow, so they are called for large documents only.
SELECT {task_columns},
    CASE WHEN pg_column_size(t.payload) > 32768 THEN {schema}.fit(t.payload) ELSE t.payload END,
    CASE WHEN pg_column_size(t.rollback_payload) > 32768 THEN {schema}.fit(t.rollback_payload) ELSE t.rollback_payload END,
    CASE WHEN pg_column_size(t.result) > 32768 THEN {schema}.fit(t.result) ELSE t.result END,
    CASE WHEN pg_column_size(t.checkpoint) > 32768 THEN {schema}.fit(t.checkpoint) ELSE t.checkpoint END,
    t.labels,
    CASE WHEN pg_column_size(t.payload) > 32768 OR pg_column_size(t.rollback_payload) > 32768
        OR pg_column_size(t.result) > 32768 OR pg_column_size(t.checkpoint) > 32768
        THEN {schema}.unfit(t.payload, t.rollback_payload, t.result, t.checkpoint) END
FROM {schema}.task AS t
WHERE t.session = @session AND t.claim = @number AND t.state IN ('running', 'rollback_running')
ORDER BY t.priority DESC, t.run_at, t.id
