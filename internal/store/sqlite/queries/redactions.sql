-- Which members are masked where documents are shown.

-- name: note_redactions
-- Notes what the configuration of a session masks, which has just loaded it: nothing where the session has declared just this before. A type that
-- masks nothing any more has an empty list.
INSERT INTO redaction (type, names)
SELECT DISTINCT w.value, ifnull((SELECT d.value FROM json_each(@redact) AS d WHERE d.key = w.value), '[]') FROM json_each(@types) AS w
WHERE ifnull((SELECT redact <> @redact FROM agent WHERE session = @session), true)
    AND (w.value IN (SELECT d.key FROM json_each(@redact) AS d) OR w.value IN (SELECT o.type FROM redaction AS o))
ON CONFLICT (type) DO UPDATE SET names = excluded.names;

-- name: redactions
SELECT type, name FROM ({redactions_at now=@now}) ORDER BY type, name;
