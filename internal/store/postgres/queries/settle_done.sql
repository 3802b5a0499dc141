-- Settles tasks that are done at their first try, which is what most settlements are. The row leaves the hot table and
-- enters the archive as it was, so there is nothing to lock first and no history to write, at two thirds of what
-- settle.sql costs.
--
-- The arguments are sorted by id; a row finds its values by width_bucket, a bisection of the ids. Rows of batches are left to settle.sql, and
-- counted there: to be spared that is a twentieth of it all. So are rows with a key, which may have a follower, rows with a lock, and rows
-- that others wait for. Where any of these are at work, settle_done_counted.sql runs.
WITH {done_deleted}, leaving AS (
    {done_row}
)
{archive_row}
RETURNING id
