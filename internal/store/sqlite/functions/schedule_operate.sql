-- INSERT INTO pause_schedule (name, by) has agents leave a schedule alone.
CREATE VIEW pause_schedule AS
    SELECT name, paused_by AS by FROM schedule WHERE paused_at IS NOT NULL;

CREATE TRIGGER pause_schedule_insert INSTEAD OF INSERT ON pause_schedule
BEGIN
    SELECT RAISE(ABORT, 'there is no schedule with this name') WHERE NOT EXISTS (SELECT 1 FROM schedule WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    UPDATE schedule SET paused_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), paused_by = nullif(CAST(NEW.by AS TEXT), ''),
        version = version + 1
    WHERE name = NEW.name AND paused_at IS NULL;
    INSERT INTO audit (requested_by, verb, schedule, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'pause', NEW.name, 'paused' WHERE changes() > 0;
END;

-- INSERT INTO resume_schedule (name, by) has agents go on with it. Slots that came meanwhile were missed: an agent decides about
-- them at once.
CREATE VIEW resume_schedule AS
    SELECT name, NULL AS by FROM schedule WHERE paused_at IS NULL;

CREATE TRIGGER resume_schedule_insert INSTEAD OF INSERT ON resume_schedule
BEGIN
    SELECT RAISE(ABORT, 'there is no schedule with this name') WHERE NOT EXISTS (SELECT 1 FROM schedule WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    UPDATE schedule SET paused_at = NULL, paused_by = NULL, version = version + 1,
        next_at = iif(invalid IS NULL, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), NULL)
    WHERE name = NEW.name AND paused_at IS NOT NULL;
    INSERT INTO audit (requested_by, verb, schedule, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'resume', NEW.name, 'resumed' WHERE changes() > 0;
END;

-- INSERT INTO remove_schedule (name, by) deletes a schedule, as DELETE does, and notes who wanted it. Its tasks stay. Where there
-- is none, nothing happens.
CREATE VIEW remove_schedule AS
    SELECT name, NULL AS by FROM schedule;

CREATE TRIGGER remove_schedule_insert INSTEAD OF INSERT ON remove_schedule
BEGIN
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    DELETE FROM schedule WHERE name = NEW.name;
    INSERT INTO audit (requested_by, verb, schedule, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'remove', NEW.name, 'removed' WHERE changes() > 0;
END;
