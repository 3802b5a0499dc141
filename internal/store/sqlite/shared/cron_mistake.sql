-- What is wrong with a cron expression: 0, it has not five fields; 1 to 5, that field; 6, it never fires; 7, jitter
-- is not shorter than the shortest time between two of its times of day; NULL, nothing.
-- MATERIALIZED: SQLite would compile what is named twice once for each place, and so on for what that names.
(WITH RECURSIVE
line (text) AS (
    SELECT CASE
        WHEN substr(t, 1, 1) <> '@' THEN t
        WHEN t IN ('@yearly', '@annually') THEN '0 0 1 1 *'
        WHEN t = '@monthly' THEN '0 0 1 * *'
        WHEN t = '@weekly' THEN '0 0 * * 0'
        WHEN t IN ('@daily', '@midnight') THEN '0 0 * * *'
        WHEN t = '@hourly' THEN '0 * * * *'
        ELSE '' END
    FROM (SELECT lower(trim(replace(NEW.cron, char(9), ' '))) AS t)
),
word (n, text, rest) AS MATERIALIZED (
    SELECT 0, '', text || ' ' FROM line
    UNION ALL
    SELECT n + 1, substr(rest, 1, instr(rest, ' ') - 1), ltrim(substr(rest, instr(rest, ' ') + 1))
    FROM word WHERE rest <> '' AND n < 6
),
field (n, lo, hi, steps, names) AS (
    VALUES (1, 0, 59, 60, ''), (2, 0, 23, 24, ''), (3, 1, 31, 31, ''), (4, 1, 12, 12, 'janfebmaraprmayjunjulaugsepoctnovdec'),
        (5, 0, 7, 7, 'sunmontuewedthufrisat')
),
item (n, k, text, rest) AS MATERIALIZED (
    SELECT n, 0, '', text || ',' FROM word WHERE n > 0
    UNION ALL
    SELECT n, k + 1, substr(rest, 1, instr(rest, ',') - 1), substr(rest, instr(rest, ',') + 1) FROM item WHERE rest <> ''
),
part (n, span, step) AS MATERIALIZED ( -- step is NULL where there is none
    SELECT n, iif(instr(text, '/') > 0, substr(text, 1, instr(text, '/') - 1), text),
        iif(instr(text, '/') > 0, substr(text, instr(text, '/') + 1), NULL)
    FROM item WHERE k > 0
),
bound (n, upper, text, span, step) AS MATERIALIZED ( -- both ends of each part: the one value is its first and its last
    SELECT n, 0, iif(instr(span, '-') > 0, substr(span, 1, instr(span, '-') - 1), span), span, step FROM part
    UNION ALL
    SELECT n, 1, substr(span, instr(span, '-') + 1), span, step FROM part
),
value (n, upper, v, span, step) AS MATERIALIZED (
    SELECT n, upper, CASE WHEN span = '*' THEN iif(upper, min(hi, iif(n = 5, 6, hi)), lo) WHEN v BETWEEN lo AND hi THEN v END, span, step
    FROM (
        SELECT bound.n, upper, lo, hi, span, step, CASE
            WHEN text GLOB '[0-9]' OR text GLOB '[0-9][0-9]' THEN CAST(text AS INTEGER)
            WHEN length(text) = 3 AND instr(names, text) % 3 = 1 THEN lo + instr(names, text) / 3 END AS v
        FROM bound JOIN field ON field.n = bound.n
    )
),
ends (n, a, b, s) AS MATERIALIZED (
    SELECT a.n, a.v, b.v, CASE
        WHEN a.step IS NULL THEN 1
        WHEN (a.step GLOB '[0-9]' OR a.step GLOB '[0-9][0-9]') AND (a.span = '*' OR instr(a.span, '-') > 0)
            AND CAST(a.step AS INTEGER) BETWEEN 1 AND steps THEN CAST(a.step AS INTEGER) END
    FROM value AS a JOIN value AS b ON b.n = a.n AND b.span = a.span AND b.step IS a.step JOIN field ON field.n = a.n
    WHERE NOT a.upper AND b.upper
),
wrong (n) AS MATERIALIZED (
    SELECT min(n) FROM (
        SELECT 0 AS n WHERE (SELECT max(n) FROM word) <> 5
        UNION ALL
        SELECT n FROM ends WHERE a IS NULL OR b IS NULL OR s IS NULL OR a > b
    )
),
chosen (n, v, b, s) AS MATERIALIZED (
    SELECT n, a, b, s FROM ends WHERE (SELECT n FROM wrong) IS NULL
    UNION
    SELECT n, v + s, b, s FROM chosen WHERE v + s <= b
),
listed (n, v) AS MATERIALIZED (SELECT DISTINCT n, iif(n = 5, v % 7, v) FROM chosen),
needs_both (yes) AS MATERIALIZED (SELECT EXISTS (SELECT 1 FROM word WHERE n IN (3, 5) AND substr(text, 1, 1) = '*')), -- both day fields must hit
minute (at) AS MATERIALIZED (
    SELECT DISTINCT h.v * 60 + m.v FROM listed AS h JOIN listed AS m ON m.n = 1 WHERE h.n = 2
),
jitter (ms) AS MATERIALIZED (SELECT {schedule_duration of=NEW.jitter} WHERE NEW.jitter <> ''),
gap (minutes) AS ( -- as if it fired on every day
    SELECT min(at - prior) FROM (SELECT at, lag(at) OVER (ORDER BY at) AS prior FROM minute)
    UNION ALL
    SELECT 1440 + min(at) - max(at) FROM minute
)
SELECT CASE
    WHEN (SELECT n FROM wrong) IS NOT NULL THEN (SELECT n FROM wrong)
    WHEN (SELECT yes FROM needs_both) AND NOT EXISTS (
        SELECT 1 FROM listed AS m JOIN listed AS d ON d.n = 3
        WHERE m.n = 4 AND d.v <= CASE WHEN m.v = 2 THEN 29 WHEN m.v IN (4, 6, 9, 11) THEN 30 ELSE 31 END) THEN 6
    WHEN (SELECT ms FROM jitter) >= (SELECT min(minutes) FROM gap) * 60000 THEN 7
END)
