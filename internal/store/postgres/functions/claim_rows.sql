-- Returns how many rows of a claim are taken, whose documents have these lengths in bytes: rows are taken in order until those
-- before come to that many bytes.
CREATE OR REPLACE FUNCTION {schema}.claim_rows(lengths double precision[], most double precision) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$leasehold$
    SELECT count(*) FROM (
        SELECT sum(u.length) OVER (ORDER BY u.place) - u.length AS before
        FROM unnest(lengths) WITH ORDINALITY AS u (length, place)
    ) AS taken
    WHERE taken.before < most
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.claim_rows(double precision[], double precision) FROM PUBLIC;
