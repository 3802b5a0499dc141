-- Sets the bound on payloads and rollback payloads of new rows, in bytes. Existing rows are not checked, so it takes no
-- longer than the lock does, for which it waits 3 s at most. Only the table's owner may.
CREATE OR REPLACE FUNCTION {schema}.set_max_payload(bytes bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS
$leasehold$
DECLARE
    size text := CASE WHEN bytes % 1048576 = 0 THEN bytes / 1048576 || ' MiB' WHEN bytes % 1024 = 0
        THEN bytes / 1024 || ' KiB'
        ELSE bytes || ' bytes' END;
    names text[] := ARRAY[format('payload must be %s at most: see migrate --max-payload', size),
        format('rollback_payload must be %s at most: see --max-payload', size)];
    there text[];
    change text;
    relation text;
BEGIN
    IF bytes IS NULL OR bytes NOT BETWEEN 131072 AND 67108864 THEN
        RAISE EXCEPTION 'the bound on payloads must be between 128 KiB and 64 MiB' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE {schema}.setting SET max_payload = bytes;
    FOREACH relation IN ARRAY ARRAY['task', 'follow'] LOOP
        there := ARRAY(SELECT c.conname::text FROM pg_constraint AS c
            WHERE c.conrelid = ({schema_literal} || '.' || relation)::regclass AND c.contype = 'c'
              AND (c.conname LIKE 'payload must be % at most%' OR c.conname LIKE 'rollback\_payload must be % at most%'));
        CONTINUE WHEN there @> names AND there <@ names;
        change := (SELECT coalesce(string_agg(format('DROP CONSTRAINT %I, ', n), ''), '') FROM unnest(there) AS n);
        EXECUTE format('ALTER TABLE %s.%s %s ADD CONSTRAINT %I CHECK (fence > 0 OR pg_column_size(payload) <= %s) NOT VALID, '
            'ADD CONSTRAINT %I CHECK (fence > 0 OR pg_column_size(rollback_payload) <= %s) NOT VALID',
            {schema_literal}, relation, change, names[1], bytes, names[2], bytes);
    END LOOP;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.set_max_payload(bigint) FROM PUBLIC;
