-- Whether agents may fire a schedule: the condition of the index schedule_next, which the planner takes only for queries that
-- repeat it.
{of}next_at IS NOT NULL AND {of}paused_at IS NULL AND {of}parked_at IS NULL AND {of}invalid IS NULL
