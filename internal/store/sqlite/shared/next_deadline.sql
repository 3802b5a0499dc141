-- The deadline of a row that is claimed: its first claim sets it, if its type declares one.
CASE WHEN task.deadline IS NULL AND @deadline <> '' THEN strftime('%Y-%m-%dT%H:%M:%fZ', task.run_at, @deadline) ELSE task.deadline END
