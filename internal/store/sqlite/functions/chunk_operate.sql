-- INSERT INTO pause_chunks (name, by) has agents plan nothing more of a chunk plan. Its tasks are run as ever.
CREATE VIEW pause_chunks AS
    SELECT name, paused_by AS by FROM chunk_plan WHERE paused_at IS NOT NULL;

CREATE TRIGGER pause_chunks_insert INSTEAD OF INSERT ON pause_chunks
BEGIN
    SELECT RAISE(ABORT, 'there is no chunk plan with this name') WHERE NOT EXISTS (SELECT 1 FROM chunk_plan WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    UPDATE chunk_plan SET paused_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), paused_by = nullif(CAST(NEW.by AS TEXT), ''),
        version = version + 1
    WHERE name = NEW.name AND paused_at IS NULL;
    INSERT INTO audit (requested_by, verb, chunks, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'pause', NEW.name, 'paused' WHERE changes() > 0;
END;

-- INSERT INTO resume_chunks (name, by) has agents go on with it. Where the batch of its pass accepts no more rows, the next chunk of
-- the pass gets a new one.
CREATE VIEW resume_chunks AS
    SELECT name, NULL AS by FROM chunk_plan WHERE paused_at IS NULL;

CREATE TRIGGER resume_chunks_insert INSTEAD OF INSERT ON resume_chunks
BEGIN
    SELECT RAISE(ABORT, 'there is no chunk plan with this name') WHERE NOT EXISTS (SELECT 1 FROM chunk_plan WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    UPDATE chunk_plan SET paused_at = NULL, paused_by = NULL, version = version + 1
    WHERE name = NEW.name AND (paused_at IS NOT NULL OR EXISTS (SELECT 1 FROM chunk_plans AS v WHERE v.name = NEW.name AND v.halted));
    INSERT INTO audit (requested_by, verb, chunks, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'resume', NEW.name, 'resumed' WHERE changes() > 0;
    UPDATE chunk_pass SET batch_id = NULL
    WHERE plan = NEW.name AND EXISTS (
        SELECT 1 FROM chunk_plans AS v WHERE v.name = chunk_pass.plan AND v.pass = chunk_pass.pass AND v.halted);
END;
