-- What a row that is revived (h) waits for: one that has never started waits anew for the tasks that it names.
CASE WHEN h.again AND NOT h.ever_started AND cardinality(h.after) > 0 THEN 'after' END
