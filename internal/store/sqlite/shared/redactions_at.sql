-- The members that are masked at a time.
SELECT r.type AS type, n.value AS name FROM redaction AS r, json_each(r.names) AS n
    UNION
    SELECT d.key, n.value FROM agent AS a, json_each(a.redact) AS d, json_each(d.value) AS n WHERE a.present_until > {now}
