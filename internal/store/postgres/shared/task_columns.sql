-- The row as claims return it: taskRow reads the columns in this order. What nearly every row has in common is NULL.
--
-- What is too large for any agent is taken without its documents, to be rejected (unfit). fit and unfit are called for large
-- documents only, since a claim of one row would pay for each expression in it with a hundredth of its time: what is stored in
-- 32 KiB fits, whatever it was compressed to and however much longer its text is, since lz4 compresses 255 times at most, and
-- an escaped control character is six bytes of text.
t.id, t.type, nullif(t.state, 'running'), t.fence, nullif(t.attempt, 1), t.max_attempts, nullif(t.deferrals, 0),
    nullif(t.ever_started, false),
    CASE WHEN pg_column_size(t.payload) > 32768 THEN {schema}.fit(t.payload) ELSE t.payload END,
    CASE WHEN pg_column_size(t.result) > 32768 THEN {schema}.fit(t.result) ELSE t.result END,
    t.labels, t.key, t.region, nullif(t.priority, 0), t.traceparent, t.created_by, t.outcome, t.error, t.policy,
    nullif(t.created_at, t.run_at), t.run_at, t.claimed_at, t.lease_until, t.deadline,
    CASE WHEN pg_column_size(t.checkpoint) > 32768 THEN {schema}.fit(t.checkpoint) ELSE t.checkpoint END,
    t.batch_id, t.round,
    CASE WHEN pg_column_size(t.rollback_payload) > 32768 THEN {schema}.fit(t.rollback_payload) ELSE t.rollback_payload END,
    t.cause,
    CASE WHEN pg_column_size(t.payload) > 32768 OR pg_column_size(t.rollback_payload) > 32768
        OR pg_column_size(t.result) > 32768 OR pg_column_size(t.checkpoint) > 32768
        THEN {schema}.unfit(t.payload, t.rollback_payload, t.result, t.checkpoint) END
