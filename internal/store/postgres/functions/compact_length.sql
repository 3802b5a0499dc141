-- Returns about how many bytes a document takes without the spaces that jsonb writes. No search_path is set, so that the
-- planner can inline the function: everything is qualified with its schema.
CREATE OR REPLACE FUNCTION {schema}.compact_length(document jsonb) RETURNS integer
    LANGUAGE sql IMMUTABLE AS
$leasehold$
    SELECT pg_catalog.octet_length(pg_catalog.replace(
        pg_catalog.replace(document::pg_catalog.text, '": ', '":'), ', ', ','))
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.compact_length(jsonb) FROM PUBLIC;
