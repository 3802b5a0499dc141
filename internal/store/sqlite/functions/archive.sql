-- For the other functions, not for applications.
--
-- INSERT INTO archive (id, state, …) moves a live task to the archive, with the state and the other columns given, makes a task
-- of its follower, and notes that it has ended if others wait for that. The result stays where new_result is 0, a requested cancellation where cancel_requested_at is NULL. after_lease: something may be at
-- work until the lease's end, so that is kept. drops_documents: they are too large to be copied. on_failed:
-- the type of the row to insert, as the task has failed for good; it gets none twice. Agents settle with the same statement; there, the rows of a call are deleted
-- together.
CREATE VIEW archive AS
    SELECT id, state, attempt, deferrals, ever_started, outcome, error, 0 AS new_result, result, output, started_at,
           finished_at, 0 AS after_lease, cancel_requested_at, cancel_requested_by, 0 AS drops_documents, NULL AS on_failed
    FROM task_archive;

CREATE TRIGGER archive_insert INSTEAD OF INSERT ON archive
BEGIN
    {on_failed_row new=NEW.}
    FROM task WHERE task.id = NEW.id AND NEW.on_failed IS NOT NULL AND task.failed_task IS NULL;
    {archive_row new=NEW. drops=NEW.drops_documents cancel_requested_at=ifnull(NEW.cancel_requested_at,task.cancel_requested_at) cancel_requested_by=ifnull(NEW.cancel_requested_by,task.cancel_requested_by)}
    FROM task WHERE task.id = NEW.id;
    -- Of one that waited for its lock, no other has waited.
    INSERT INTO lock_note (name) SELECT lock FROM task WHERE id = NEW.id AND lock IS NOT NULL AND held IS NULL;
    {note_turn which==NEW.id};
    {note_failure which==NEW.id};
    INSERT INTO ended_note (id) SELECT id FROM task WHERE id = NEW.id AND awaited;
    DELETE FROM dependency WHERE task_id = (SELECT id FROM task WHERE id = NEW.id AND held = 'after');
    DELETE FROM dependent WHERE task_id = (SELECT id FROM task WHERE id = NEW.id AND held = 'after');
    DELETE FROM task WHERE id = NEW.id;
    INSERT INTO insert_follower (type, key, until)
    SELECT type, key, lease_until FROM task_archive WHERE id = NEW.id AND key IS NOT NULL;
END;
