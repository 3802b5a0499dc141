-- Reports whether a row can be rolled back: the policy that its last attempt started with has a rollback, or any other
-- policy of its type, which may have got one later. Without a type (NULL) only that policy counts, as for a cancellation.
CREATE OR REPLACE FUNCTION {schema}.can_roll_back(of_type text, with_policy bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    RETURN EXISTS (SELECT FROM {schema}.policy AS p
                   WHERE (p.hash = with_policy OR p.type = of_type) AND p.body ? 'rollback');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.can_roll_back(text, bigint) FROM PUBLIC;

-- Returns the policies and the types that have a rollback: can_roll_back for many rows.
CREATE OR REPLACE FUNCTION {schema}.with_rollback(OUT hashes bigint[], OUT types text[])
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    SELECT coalesce(array_agg(p.hash), '{}'), coalesce(array_agg(DISTINCT p.type), '{}') INTO hashes, types
    FROM {schema}.policy AS p WHERE p.body ? 'rollback';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.with_rollback() FROM PUBLIC;
