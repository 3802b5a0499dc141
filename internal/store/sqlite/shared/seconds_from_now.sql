-- The time so many seconds from now; NULL: now.
strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ifnull(CAST({of} AS REAL), 0)))
