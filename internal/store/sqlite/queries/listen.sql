-- name: wakeups
-- What rises when there is something to do: ids of inserted tasks, and the counters.
SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'task'), 0), due, cancel, after FROM wakeup;
