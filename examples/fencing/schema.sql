-- What the application keeps for itself. PostgreSQL and SQLite both take it.
CREATE TABLE IF NOT EXISTS account (name text PRIMARY KEY, points bigint NOT NULL DEFAULT 0);
-- How far each task has come.
CREATE TABLE IF NOT EXISTS reached (task bigint PRIMARY KEY, done integer NOT NULL DEFAULT 0);
-- The same in a database that is not the store, with the highest fence that it has seen.
CREATE TABLE IF NOT EXISTS guard (task bigint PRIMARY KEY, last_fence bigint NOT NULL, done integer NOT NULL DEFAULT 0);
