-- Returns a duration of a policy, which has it in nanoseconds, or NULL where it is absent or 0. No search_path is set, so
-- that the planner can inline the function: everything is qualified with its schema.
CREATE OR REPLACE FUNCTION {schema}.policy_interval(policy jsonb, name text) RETURNS interval
    LANGUAGE sql IMMUTABLE AS
$leasehold$
    SELECT CASE WHEN (policy OPERATOR(pg_catalog.->>) name)::bigint OPERATOR(pg_catalog.<>) 0 THEN
        ((policy OPERATOR(pg_catalog.->>) name)::bigint OPERATOR(pg_catalog./) 1000)
            OPERATOR(pg_catalog.*) interval '1 microsecond' END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.policy_interval(jsonb, text) FROM PUBLIC;
