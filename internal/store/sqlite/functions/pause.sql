-- INSERT INTO pause (type, reason, by) has agents claim no rows of a type, neither to run nor to roll back; what runs goes on. They learn of it
-- within a second. reason is what people are told.
CREATE VIEW pause AS
    SELECT type, reason, paused_by AS by FROM type_pause;

CREATE TRIGGER pause_insert INSTEAD OF INSERT ON pause
BEGIN
    SELECT RAISE(ABORT, 'type must have 1 to 255 bytes')
    WHERE NEW.type IS NULL OR length(CAST(NEW.type AS BLOB)) NOT BETWEEN 1 AND 255;
    SELECT RAISE(ABORT, 'reason must be 512 bytes at most') WHERE length(CAST(NEW.reason AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    INSERT INTO type_pause (type, paused_by, reason)
    VALUES (NEW.type, nullif(CAST(NEW.by AS TEXT), ''), nullif(CAST(NEW.reason AS TEXT), '')) ON CONFLICT DO NOTHING;
    INSERT INTO audit (requested_by, verb, type, reason, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'pause', NEW.type, nullif(CAST(NEW.reason AS TEXT), ''), 'paused' WHERE changes() > 0;
END;

-- INSERT INTO resume (type, by) has agents claim rows of a type again.
CREATE VIEW resume AS
    SELECT type, NULL AS by FROM type_pause;

CREATE TRIGGER resume_insert INSTEAD OF INSERT ON resume
BEGIN
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    DELETE FROM type_pause WHERE type = NEW.type;
    INSERT INTO audit (requested_by, verb, type, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'resume', NEW.type, 'resumed' WHERE changes() > 0;
END;
