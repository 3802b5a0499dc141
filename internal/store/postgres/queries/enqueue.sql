-- name: enqueue
-- Inserts a task, unless a live one has its type and key.
INSERT INTO {schema}.task (type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by,
    batch_id, rollback_payload, lock, sequence, after, after_if, tenant)
VALUES (@type, coalesce(nullif(@payload::text, '')::jsonb, '{}'),
        coalesce(@run_at::timestamptz, now() + @delay::bigint * interval '1 microsecond'), @priority::bigint,
            nullif(@key::text, ''),
        nullif(@region::text, ''), nullif(@max_attempts::bigint, 0), nullif(@labels::text, '')::jsonb,
            nullif(@traceparent::text, ''),
        nullif(@created_by::text, ''), nullif(@batch_id::bigint, 0), nullif(@rollback_payload::text, '')::jsonb, nullif(@lock::text, ''),
        nullif(@sequence::text, ''), nullif(@after::bigint[], '{}'), nullif(@after_if::text, ''),
        nullif(@tenant::text, ''))
ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING
RETURNING id

-- name: enqueue_live
-- Inserts a task, or does with the live one that has its type and key what is asked for.
SELECT r.id, r.answer FROM {schema}.enqueue_result(type => @type, payload => nullif(@payload::text, '')::jsonb,
    run_at => coalesce(@run_at::timestamptz, now() + nullif(@delay::bigint, 0) * interval '1 microsecond'),
    priority => @priority::integer, key => nullif(@key::text, ''), region => nullif(@region::text, ''),
    max_attempts => nullif(@max_attempts::integer, 0), labels => nullif(@labels::text, '')::jsonb,
    traceparent => nullif(@traceparent::text, ''), created_by => nullif(@created_by::text, ''),
    batch_id => nullif(@batch_id::bigint, 0), rollback_payload => nullif(@rollback_payload::text, '')::jsonb, on_live => @on_live,
    debounce => nullif(@debounce::bigint, 0) * interval '1 microsecond',
    debounce_max => nullif(@debounce_max::bigint, 0) * interval '1 microsecond', lock => nullif(@lock::text, ''),
    sequence => nullif(@sequence::text, ''),
    after => nullif(@after::bigint[], '{}'), after_if => nullif(@after_if::text, ''),
    tenant => nullif(@tenant::text, '')) AS r

-- name: find_key
-- Finds the live task with a type and key.
SELECT t.id FROM {schema}.task AS t WHERE t.type = @type AND t.key = @key
