-- Creates the archive's partition for a day unless it exists. An agent need not own the schema, so this runs with the
-- owner's rights, and only for days around today; each role with a privilege on the archive gets the same on the new
-- table. CREATE TABLE … PARTITION OF would lock the whole archive against every reader and writer. Attaching a table that
-- was created apart locks it only against others that attach.
CREATE OR REPLACE FUNCTION {schema}.ensure_partition(at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    today date := (at AT TIME ZONE 'UTC')::date;
    part  text := {schema_literal} || '.task_archive_' || to_char(today, 'YYYYMMDD');
    given record;
BEGIN
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    ELSIF today NOT BETWEEN current_date - 3 AND current_date + 5 THEN
        RAISE EXCEPTION 'the archive gets partitions for days around today, not for %', today
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    BEGIN
        LOCK TABLE {schema}.schema_version IN SHARE ROW EXCLUSIVE MODE;
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION 'the schema is being changed by %: try again',
            {schema}.lock_holders(({schema_literal} || '.schema_version')::regclass)
            USING ERRCODE = 'lock_not_available';
    END;
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %s (LIKE %s.task_archive INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, {schema_literal});
    FOR given IN
        SELECT a.privilege_type, a.grantee FROM pg_class AS c, aclexplode(c.relacl) AS a
        WHERE c.oid = ({schema_literal} || '.task_archive')::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON %s TO %s', given.privilege_type, part,
            CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END);
    END LOOP;
    EXECUTE format('ALTER TABLE %s.task_archive ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)',
        {schema_literal}, part, to_char(today, 'YYYY-MM-DD') || ' 00:00:00+00', to_char(today + 1,
            'YYYY-MM-DD') || ' 00:00:00+00');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.ensure_partition(timestamptz) FROM PUBLIC;

-- Detaches the partition of a day that is over, for agents that do not own the schema: an owner detaches CONCURRENTLY,
-- which no function can. It locks the archive exclusively for a moment, and waits for that lock half a second at most.
CREATE OR REPLACE FUNCTION {schema}.detach_partition(day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' AS
$leasehold$
DECLARE
    part text := {schema_literal} || '.task_archive_' || to_char(day, 'YYYYMMDD');
    half boolean;
BEGIN
    IF (day < (clock_timestamp() AT TIME ZONE 'UTC')::date) IS NOT TRUE THEN
        RAISE EXCEPTION 'the day % is not over', day USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT i.inhdetachpending INTO half FROM pg_inherits AS i
    WHERE i.inhrelid = to_regclass(part) AND i.inhparent = ({schema_literal} || '.task_archive')::regclass;
    IF FOUND THEN
        EXECUTE format('ALTER TABLE %s.task_archive DETACH PARTITION %s %s', {schema_literal}, part,
            CASE WHEN half THEN 'FINALIZE' END);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.detach_partition(date) FROM PUBLIC;

-- Drops the table of a day that has been detached from the archive.
CREATE OR REPLACE FUNCTION {schema}.drop_partition(day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    part text := {schema_literal} || '.task_archive_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = to_regclass(part)) THEN
        RAISE EXCEPTION 'the day % is still part of the archive', day USING ERRCODE = 'object_in_use';
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS %s', part);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.drop_partition(date) FROM PUBLIC;
