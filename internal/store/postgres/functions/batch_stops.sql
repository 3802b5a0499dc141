-- Locks the batch's gate exclusively, just before the transaction that stops the batch commits (see batch_gate_0).
CREATE OR REPLACE FUNCTION {schema}.batch_stops() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    gate text := format('%s.batch_gate_%s', {schema_literal}, NEW.id % 8);
BEGIN
    EXECUTE format('LOCK TABLE %s IN EXCLUSIVE MODE', gate);
    RETURN NULL;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'batch % is not stopped: a claim of its tasks takes longer than 5 s, held by %: try again', NEW.id,
        {schema}.lock_holders(gate::regclass) USING ERRCODE = 'lock_not_available';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.batch_stops() FROM PUBLIC;
