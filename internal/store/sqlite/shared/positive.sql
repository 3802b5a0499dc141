-- Whether a value is NULL, or a number of seconds above 0 that a time can have. Some drivers bind numbers as text.
({of} IS NULL OR CASE typeof({of}) WHEN 'integer' THEN 1 WHEN 'real' THEN 1
    WHEN 'text' THEN CASE WHEN json_valid({of}) THEN json_type({of}) IN ('integer', 'real') ELSE 0 END
    ELSE 0 END AND CAST({of} AS REAL) BETWEEN 0.001 AND 3153600000)
