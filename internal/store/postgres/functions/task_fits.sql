-- Whether the columns of a new row are within their bounds that most rows leave empty, or that rarely are wrong: it is true, or says what is
-- wrong, as a constraint of that name would. The table has one constraint in their place (triggers.sql), which calls it only for rows that
-- have one of these columns. A constraint costs each INSERT about 2 us, which reads its text anew, whatever the row has.
--
-- The function has no search_path of its own, since to set one costs more than all else here: everything is qualified with its schema.
-- Lengths are compared in place of texts, of which the collations differ.
CREATE OR REPLACE FUNCTION {schema}.task_fits(
    type text, region text, key text, lock text, sequence text, tenant text, after_if text, max_attempts integer, labels jsonb,
    traceparent text, created_by text
) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE AS
$leasehold$
DECLARE
    wrong pg_catalog.text;
BEGIN
    -- Each expression costs something before it is evaluated, so those of columns that the row does not have are passed over.
    IF key IS NOT NULL THEN
        wrong := CASE
            WHEN pg_catalog.octet_length(key) OPERATOR(pg_catalog.=) 0 THEN 'key must not be empty: leave it out instead'
            WHEN pg_catalog.octet_length(key) OPERATOR(pg_catalog.>) 1024 THEN 'key must be 1 KiB at most' END;
    END IF;
    IF labels IS NOT NULL AND wrong IS NULL THEN
        wrong := CASE
            -- strict: the lax mode looks into lists, and would accept one of strings as a string
            WHEN pg_catalog.jsonb_typeof(labels) COLLATE pg_catalog."C" OPERATOR(pg_catalog.<>) 'object'
                OR pg_catalog.jsonb_path_exists(labels, 'strict $.* ? (@.type() != "string")', '{}', true)
                THEN 'labels must be a JSON object of strings'
            WHEN pg_catalog.octet_length(labels::pg_catalog.text) OPERATOR(pg_catalog.>) 4096 THEN 'labels must be 4 KiB at most' END;
    END IF;
    IF COALESCE(region, traceparent, created_by) IS NOT NULL AND wrong IS NULL THEN
        wrong := CASE
            WHEN pg_catalog.octet_length(region) OPERATOR(pg_catalog.>) 255 THEN 'region must be 255 bytes at most'
            WHEN pg_catalog.octet_length(traceparent) OPERATOR(pg_catalog.>) 512 THEN 'traceparent must be 512 bytes at most'
            WHEN pg_catalog.octet_length(created_by) OPERATOR(pg_catalog.>) 512 THEN 'created_by must be 512 bytes at most' END;
    END IF;
    IF COALESCE(lock, sequence, tenant, after_if) IS NOT NULL AND wrong IS NULL THEN
        wrong := CASE
            WHEN pg_catalog.octet_length(lock) OPERATOR(pg_catalog.=) 0 THEN 'lock must not be empty: leave it out instead'
            WHEN pg_catalog.octet_length(lock) OPERATOR(pg_catalog.>) 1024 THEN 'lock must be 1 KiB at most'
            WHEN pg_catalog.octet_length(sequence) OPERATOR(pg_catalog.=) 0 THEN 'sequence must not be empty: leave it out instead'
            WHEN pg_catalog.octet_length(sequence) OPERATOR(pg_catalog.>) 1024 THEN 'sequence must be 1 KiB at most'
            WHEN pg_catalog.octet_length(tenant) OPERATOR(pg_catalog.=) 0 THEN 'tenant must not be empty: leave it out instead'
            WHEN pg_catalog.octet_length(tenant) OPERATOR(pg_catalog.>) 1024 THEN 'tenant must be 1 KiB at most'
            WHEN after_if COLLATE pg_catalog."C" OPERATOR(pg_catalog.<>) 'succeeded'
                AND after_if COLLATE pg_catalog."C" OPERATOR(pg_catalog.<>) 'any' THEN 'after_if must be succeeded or any' END;
    END IF;
    IF wrong IS NULL THEN
        wrong := CASE
            WHEN pg_catalog.octet_length(type) OPERATOR(pg_catalog.=) 0 THEN 'type must not be empty'
            WHEN pg_catalog.octet_length(type) OPERATOR(pg_catalog.>) 255 THEN 'type must be 255 bytes at most'
            WHEN max_attempts OPERATOR(pg_catalog.<) 1 OR max_attempts OPERATOR(pg_catalog.>) 1000
                THEN 'max_attempts must be between 1 and 1000' END;
    END IF;
    IF wrong IS NULL THEN
        RETURN true;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = {schema_literal}, TABLE = 'task', CONSTRAINT = wrong,
        MESSAGE = pg_catalog.format('new row for relation "task" violates check constraint "%s"', wrong);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.task_fits(text, text, text, text, text, text, text, integer, jsonb, text, text) FROM PUBLIC;
