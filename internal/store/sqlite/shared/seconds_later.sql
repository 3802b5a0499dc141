-- The time so many seconds after another.
strftime('%Y-%m-%dT%H:%M:%fZ', {of}, printf('+%.3f seconds', CAST({by} AS REAL)))
