-- Notes what the configuration of a session masks, which has just loaded it: nothing where the session has declared just this before. A type that
-- masks nothing any more has an empty list.
INSERT INTO {schema}.redaction AS r (type, names)
SELECT DISTINCT ON (w.type) w.type, coalesce(@redact::jsonb -> w.type, '[]') FROM unnest(@types::text[]) AS w (type)
WHERE coalesce((SELECT a.redact <> @redact::jsonb FROM {schema}.agent AS a WHERE a.session = @session), true)
  AND (@redact::jsonb -> w.type IS NOT NULL OR EXISTS (SELECT FROM {schema}.redaction AS o WHERE o.type = w.type))
ORDER BY w.type
ON CONFLICT (type) DO UPDATE SET names = excluded.names
