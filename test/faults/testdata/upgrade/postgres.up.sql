-- oldest: {before}
-- A step that is additive for one release, and does what running agents notice first: it takes the hot table and the archive
-- for itself, adds a column to both and to the view, indexes the hot table, and has all functions created anew.
ALTER TABLE {schema}.task ADD COLUMN note text;
ALTER TABLE {schema}.task_archive ADD COLUMN note text;
{tasks}
CREATE TABLE {schema}.noted (task_id bigint PRIMARY KEY, weight integer NOT NULL DEFAULT 1);
CREATE INDEX task_note ON {schema}.task (note) WHERE note IS NOT NULL;
