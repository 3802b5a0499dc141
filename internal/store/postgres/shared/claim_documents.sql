-- The documents of a claimed row, as taskRow.documents reads them. They are left out where any of them could be large, or even too
-- large for an agent: the first flag says so, and claimed.sql reads them, which looks at each. The claim itself would pay for
-- that look with a fiftieth of its time. The second flag says that @bytes kept rows from being taken.
--
-- What is stored in 32 KiB is no large document, whatever it was compressed to: lz4 compresses 255 times at most, and an escaped
-- control character is six bytes of text.
CASE WHEN (SELECT large FROM room) THEN NULL ELSE t.payload END,
    CASE WHEN (SELECT large FROM room) THEN NULL ELSE t.rollback_payload END,
    CASE WHEN pg_column_size(t.result) <= 32768 THEN t.result END,
    CASE WHEN pg_column_size(t.checkpoint) <= 32768 THEN t.checkpoint END,
    t.labels,
    nullif((SELECT large FROM room) OR coalesce(greatest(pg_column_size(t.result), pg_column_size(t.checkpoint)) > 32768, false), false),
    nullif((SELECT rows IS NOT NULL FROM room), false)
