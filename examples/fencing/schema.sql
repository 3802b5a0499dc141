-- The application's tables. The file works on PostgreSQL and SQLite.
CREATE TABLE IF NOT EXISTS account (name text PRIMARY KEY, points bigint NOT NULL DEFAULT 0);
-- The progress of each task.
CREATE TABLE IF NOT EXISTS reached (task bigint PRIMARY KEY, done integer NOT NULL DEFAULT 0);
-- The same for a database other than the store, with the highest fence seen.
CREATE TABLE IF NOT EXISTS guard (task bigint PRIMARY KEY, last_fence bigint NOT NULL, done integer NOT NULL DEFAULT 0);
