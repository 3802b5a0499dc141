-- The tables of the example applications, beside Leasehold's own. The file works on PostgreSQL and SQLite.
-- greeted_by is the id of the task that sent the greeting.
CREATE TABLE IF NOT EXISTS greeting (name text PRIMARY KEY, greeted_by bigint);
-- greetings is the number of greetings sent when the report was built.
CREATE TABLE IF NOT EXISTS report (name text PRIMARY KEY, greetings bigint);
