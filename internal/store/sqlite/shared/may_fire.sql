-- Whether agents may fire a schedule: the condition of the index schedule_next, which SQLite takes only for queries that repeat it.
next_at IS NOT NULL AND paused_at IS NULL AND parked_at IS NULL AND invalid IS NULL
