-- A moment in milliseconds since 1970, RFC 3339 with milliseconds at most; NULL where {of} is none.
(SELECT CASE
    WHEN day GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' AND strftime('%Y-%m-%d', day, '+0 days') IS day
        AND clock GLOB 'T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]' AND clock < 'T24'
        AND (fraction = '' OR fraction GLOB '.[0-9]' OR fraction GLOB '.[0-9][0-9]' OR fraction GLOB '.[0-9][0-9][0-9]')
        AND (place = 'Z' OR place GLOB '[-+][01][0-9]:[0-5][0-9]' AND substr(place, 2, 2) <= '14')
    THEN CAST(strftime('%s', day || ' ' || substr(clock, 2)) AS INTEGER) * 1000 + CAST(substr(fraction || '000', 2, 3) AS INTEGER)
        - CASE substr(place, 1, 1) WHEN '+' THEN 60000 WHEN '-' THEN -60000 ELSE 0 END
            * (CAST(substr(place, 2, 2) AS INTEGER) * 60 + CAST(substr(place, 5, 2) AS INTEGER))
    END
FROM (
    SELECT substr({of}, 1, 10) AS day, substr({of}, 11, 9) AS clock,
        iif(substr({of}, -1) = 'Z', 'Z', substr({of}, -6)) AS place,
        substr({of}, 20, max(length({of}) - 19 - iif(substr({of}, -1) = 'Z', 1, 6), 0)) AS fraction
    WHERE length({of}) >= 20
))
