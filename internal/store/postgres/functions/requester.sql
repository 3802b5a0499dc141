-- Returns who requests an operation, for the audit: the argument, by default the role that calls, and NULL for an empty
-- one.
CREATE OR REPLACE FUNCTION {schema}.requester(by text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF octet_length(by) > 512 THEN
        RAISE EXCEPTION 'by must be 512 bytes at most' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN nullif(coalesce(by, session_user), '');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.requester(text) FROM PUBLIC;
