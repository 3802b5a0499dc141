-- Inserts a batch.
INSERT INTO {schema}.batch (name, on_failure, finish_type, finish_payload, labels, created_by, sealed)
VALUES (@name, coalesce(nullif(@on_failure::text, ''), 'continue'), nullif(@finish_type::text, ''),
    coalesce(nullif(@finish_payload::text, '')::jsonb, '{}'),
    nullif(@labels::text, '')::jsonb, nullif(@created_by::text, ''), @sealed)
RETURNING id, now()
