-- A duration in milliseconds, whole numbers of d, h, m, s and ms in this order; NULL where {of} is none. Each step takes the
-- number before one unit; an x stands for ms, and a ! for what is wrong.
(WITH RECURSIVE scan (n, rest, total) AS (
    SELECT 0, CASE WHEN {of} GLOB '*[^0-9dhms]*' THEN '!' ELSE replace({of}, 'ms', 'x') END, 0
    UNION ALL
    SELECT n + 1,
        CASE
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 0 THEN rest
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 1
                OR substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) GLOB '*[^0-9]*' THEN '!'
            ELSE substr(rest, instr(rest, substr('dhmsx', n + 1, 1)) + 1)
        END,
        total + CASE n WHEN 0 THEN 86400000 WHEN 1 THEN 3600000 WHEN 2 THEN 60000 WHEN 3 THEN 1000 ELSE 1 END
            * iif(instr(rest, substr('dhmsx', n + 1, 1)) > 1,
                CAST(substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) AS INTEGER), 0)
    FROM scan WHERE n < 5
) SELECT total FROM scan WHERE n = 5 AND rest = '')
