-- oldest: {before}
-- A step that is additive for one release: it adds a column to the hot table, to the archive and to the view, a table and an
-- index, and has all views that applications call created anew.
ALTER TABLE task ADD COLUMN note TEXT;
ALTER TABLE task_archive ADD COLUMN note TEXT;
DROP VIEW tasks;
{tasks}
CREATE TABLE noted (task_id INTEGER PRIMARY KEY, weight INTEGER NOT NULL DEFAULT 1) STRICT;
CREATE INDEX task_note ON task (note) WHERE note IS NOT NULL;
