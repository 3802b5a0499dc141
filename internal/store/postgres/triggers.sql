-- Constraints and triggers, which need both the tables and the functions.

-- In place of a constraint for each column: see functions/task_fits.sql. What a row has is checked when it comes, as all else is.
ALTER TABLE {schema}.task ADD CONSTRAINT "columns must be within their bounds" CHECK (
    fence > 0 OR octet_length(type) BETWEEN 1 AND 255 AND labels IS NULL AND max_attempts IS NULL
        AND coalesce(region, key, lock, sequence, tenant, after_if, traceparent, created_by) IS NULL
    OR {schema}.task_fits(type, region, key, lock, sequence, tenant, after_if, max_attempts, labels, traceparent, created_by));
ALTER TABLE {schema}.follow ADD CONSTRAINT "columns must be within their bounds" CHECK (
    fence > 0 OR octet_length(type) BETWEEN 1 AND 255 AND labels IS NULL AND max_attempts IS NULL
        AND coalesce(region, key, lock, sequence, tenant, after_if, traceparent, created_by) IS NULL
    OR {schema}.task_fits(type, region, key, lock, sequence, tenant, after_if, max_attempts, labels, traceparent, created_by));

-- A row trigger WHEN (NEW.batch_id IS NOT NULL) would cost each row of a batch two thirds of what it costs to insert it,
-- and need somewhere to count that no application can write to. The transition table costs a row without a batch some
-- hundredths of its insert where it comes alone, and up to a sixth in an INSERT of thousands.
CREATE TRIGGER task_inserted AFTER INSERT ON {schema}.task
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION {schema}.task_inserted();

-- Deferred: it runs just before the commit.
CREATE CONSTRAINT TRIGGER batch_stops AFTER UPDATE OF stopping ON {schema}.batch DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.stopping AND NOT OLD.stopping) EXECUTE FUNCTION {schema}.batch_stops();

-- An agent has checked what HCL declares, by rules that may be newer than these.
CREATE TRIGGER schedule_declared BEFORE INSERT OR UPDATE OF name, task, cron, every, after, timezone, payload, jitter, from_at,
    until_at, missed, catch_up, overlap, source ON {schema}.schedule
    FOR EACH ROW WHEN (NEW.source = 'sql') EXECUTE FUNCTION {schema}.schedule_declared();

-- It runs before schedule_declared: triggers of one kind run in the order of their names.
CREATE TRIGGER schedule_changed BEFORE UPDATE OF task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed,
    catch_up, overlap, source ON {schema}.schedule
    FOR EACH ROW EXECUTE FUNCTION {schema}.schedule_changed();

CREATE TRIGGER schedule_deleted BEFORE DELETE ON {schema}.schedule
    FOR EACH ROW WHEN (OLD.source = 'hcl') EXECUTE FUNCTION {schema}.schedule_deleted();

-- Rows without a sequence pay for the condition.
CREATE TRIGGER sequence_left AFTER INSERT ON {schema}.task_archive
    FOR EACH ROW WHEN (NEW.sequence IS NOT NULL) EXECUTE FUNCTION {schema}.sequence_left();
