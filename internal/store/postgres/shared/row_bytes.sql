-- How long the documents of a row are together, or more, in bytes: what is compressed counts 32 times, a rollback payload always,
-- and results and checkpoints count as the most that they may be.
CASE WHEN pg_column_compression(t.payload) IS NULL THEN 1::float8 ELSE 32 END
                    * pg_column_size(t.payload)
                + CASE WHEN t.rollback_payload IS NULL AND t.result IS NULL AND t.checkpoint IS NULL THEN 0
                    ELSE 131072 + 32 * coalesce(pg_column_size(t.rollback_payload), 0)::float8 END
