-- What every example application keeps for itself, beside Leasehold's tables. PostgreSQL and SQLite both take it.
-- greeted_by is the task that did it.
CREATE TABLE IF NOT EXISTS greeting (name text PRIMARY KEY, greeted_by bigint);
-- greetings is how many had been done when the report was built.
CREATE TABLE IF NOT EXISTS report (name text PRIMARY KEY, greetings bigint);
