-- Reports whether a claim may start so many rows of the batch, and counts them if so. It is volatile, so it sees what has
-- committed by now, which the statement that calls it does not. Agents call it for each batch of a claim: like
-- task_inserted it has no search_path of its own and qualifies all names. It never waits.
CREATE OR REPLACE FUNCTION {schema}.reserve_start(batch bigint, n bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS
$leasehold$
DECLARE
    gate bigint := batch OPERATOR(pg_catalog.%) 8;
BEGIN
    BEGIN
        IF    gate OPERATOR(pg_catalog.=) 0 THEN LOCK TABLE {schema}.batch_gate_0 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 1 THEN LOCK TABLE {schema}.batch_gate_1 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 2 THEN LOCK TABLE {schema}.batch_gate_2 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 3 THEN LOCK TABLE {schema}.batch_gate_3 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 4 THEN LOCK TABLE {schema}.batch_gate_4 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 5 THEN LOCK TABLE {schema}.batch_gate_5 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 6 THEN LOCK TABLE {schema}.batch_gate_6 IN ROW SHARE MODE NOWAIT;
        ELSE LOCK TABLE {schema}.batch_gate_7 IN ROW SHARE MODE NOWAIT;
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    IF EXISTS (SELECT FROM {schema}.batch AS b WHERE b.id OPERATOR(pg_catalog.=) batch AND b.stopping) THEN
        RETURN false;
    END IF;
    INSERT INTO {schema}.batch_delta (batch_id, running) VALUES (batch, n);
    RETURN true;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.reserve_start(bigint, bigint) FROM PUBLIC;
