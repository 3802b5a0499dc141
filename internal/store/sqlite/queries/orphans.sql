-- name: orphans
-- Lists the types of waiting rows that no present agent declares. It reads the hot table.
SELECT type, waiting, running, oldest_at, declared_at, ifnull(declared_by, ''), ifnull(declared_as, '') FROM orphans ORDER BY type LIMIT 10000;
