-- Has a schedule go on from a change of what it declares: a firing that was decided before is not applied, an agent looks at it
-- at once, and where its slots changed, those of the new declaration count from now on. Rows of HCL are changed by agents only,
-- which write another number of a declaration with them.
CREATE OR REPLACE FUNCTION {schema}.schedule_changed() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF OLD.source = 'hcl' AND NEW.declared IS NOT DISTINCT FROM OLD.declared THEN
        RAISE EXCEPTION 'schedule "%" is declared in HCL: change it there', OLD.name USING ERRCODE = 'LH409';
    END IF;
    NEW.version := OLD.version + 1;
    NEW.next_at := date_trunc('milliseconds', now());
    NEW.invalid := NULL;
    IF (NEW.cron, NEW.every, NEW.after, NEW.timezone, NEW.from_at, NEW.until_at)
            IS DISTINCT FROM (OLD.cron, OLD.every, OLD.after, OLD.timezone, OLD.from_at, OLD.until_at) THEN
        NEW.cursor_at := greatest(OLD.cursor_at, date_trunc('milliseconds', now()));
    END IF;
    RETURN NEW;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.schedule_changed() FROM PUBLIC;

-- Refuses to delete a schedule that would be inserted again at once.
CREATE OR REPLACE FUNCTION {schema}.schedule_deleted() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF EXISTS (
        SELECT FROM {schema}.schedule_declaration AS d
        JOIN {schema}.schedule_declarer AS r ON r.number = d.number
        JOIN {schema}.agent AS a ON a.session = r.session
        WHERE d.name = OLD.name AND d.spec->>'task' = OLD.task AND a.present_until > now()
    ) THEN
        RAISE EXCEPTION 'schedule "%": an agent that is present declares it: take it out of its configuration first', OLD.name
            USING ERRCODE = 'LH409';
    END IF;
    RETURN OLD;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.schedule_deleted() FROM PUBLIC;
