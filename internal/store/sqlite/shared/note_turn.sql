-- Notes that rows with a sequence have ended: they are in the archive. A trigger there would have every row copied once more.
INSERT INTO sequence_note (type, name, until)
    SELECT type, sequence, lease_until FROM task_archive WHERE id {which} AND sequence IS NOT NULL
