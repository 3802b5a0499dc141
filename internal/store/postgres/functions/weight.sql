-- Returns the length of a document in bytes, as far as it is known without reading it: a large one is stored out of line,
-- and its size as pg_column_size gives it stands in the row. An agent gets the document's text, which may be several
-- times as long, and a hundred times where the document is compressed. So a compressed document counts 32 times while it
-- is small, and is read where it is not; so is every document beyond 1 MiB, up to the size that no agent takes anyway.
CREATE OR REPLACE FUNCTION {schema}.weight(document jsonb) RETURNS double precision
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$leasehold$
    SELECT CASE
        WHEN pg_column_compression(document) IS NULL AND pg_column_size(document) <= 1048576
            OR pg_column_size(document) > 67108864 THEN pg_column_size(document)
        WHEN pg_column_size(document) <= 4096 THEN 32 * pg_column_size(document)
        ELSE octet_length(document::text) END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.weight(jsonb) FROM PUBLIC;

-- Returns the document, or NULL where it is too large for an agent.
CREATE OR REPLACE FUNCTION {schema}.fit(document jsonb) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$leasehold$
    SELECT CASE WHEN {schema}.weight(document) <= 67108864 THEN document END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.fit(jsonb) FROM PUBLIC;

-- Returns the reason why no agent takes a row with these documents, or NULL where all of them fit.
CREATE OR REPLACE FUNCTION {schema}.unfit(payload jsonb, rollback_payload jsonb, result jsonb, checkpoint jsonb) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$leasehold$
    SELECT format('its %s is %s bytes, and agents take 64 MiB at most: keep what is large elsewhere, and where it is in the '
        'payload', d.what, d.bytes)
    FROM (VALUES ('payload', {schema}.weight(payload)), ('rollback payload', {schema}.weight(rollback_payload)),
        ('result', {schema}.weight(result)), ('checkpoint', {schema}.weight(checkpoint))) AS d (what, bytes)
    WHERE d.bytes > 67108864 LIMIT 1
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.unfit(jsonb, jsonb, jsonb, jsonb) FROM PUBLIC;
