-- Errors that applications and operators see. Each of these functions raises, or returns nothing.

-- Raises the error of an attempt that no longer holds its row.
CREATE OR REPLACE FUNCTION {schema}.raise_lease_lost(of bigint, with_fence bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    RAISE EXCEPTION 'task % is not held with fence % any more: stop, and commit nothing', of, with_fence
        USING ERRCODE = 'LH410';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.raise_lease_lost(bigint, bigint) FROM PUBLIC;

-- Raises the error of a request that cannot be granted in the present state. Nothing has changed.
CREATE OR REPLACE FUNCTION {schema}.raise_conflict(reason text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = reason;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.raise_conflict(text) FROM PUBLIC;

-- Raises "there is no task" from the tenth try on. An archived row that another transaction moves is found at the second
-- try. One that is past its retention may never be: while its partition is being detached, a statement that was planned
-- before sees it, and one that is planned later does not, as long as the transaction lasts; and the detaching waits for
-- that transaction.
CREATE OR REPLACE FUNCTION {schema}.limit_tries(id bigint, try integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF try >= 10 THEN
        RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.limit_tries(bigint, integer) FROM PUBLIC;
