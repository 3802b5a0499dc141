-- Wakes idle agents, counts new rows of batches, and has rows wait that name others (after); rows that are revived from the archive (fence > 0) are counted where
-- that happens. NOTIFY takes a lock at commit that the whole database shares, so a producer pays for it only while an
-- agent is idle. It runs with its owner's rights, since producers may not read agent.
--
-- The function has no search_path of its own: to set one costs each insert a good part of its time. So everything that
-- could be looked up in a path is qualified with its schema: tables, functions, operators, and types, which are looked up
-- in the caller's pg_temp first. A type that is a keyword (boolean, bigint) is always that of pg_catalog; record is no
-- keyword.
CREATE OR REPLACE FUNCTION {schema}.task_inserted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER AS
$leasehold$
DECLARE
    idle    boolean;
    batched boolean;
    waiting bigint[];
    one     bigint;
    n       bigint;
    low     bigint;
    high    bigint;
BEGIN
    -- Mostly there is neither an idle agent nor a batch nor a row that waits. PERFORM finds that out for a sixth less than SELECT INTO takes.
    PERFORM FROM {schema}.agent AS a WHERE a.idle AND a.present_until OPERATOR(pg_catalog.>) pg_catalog.now()
    UNION ALL
    SELECT FROM inserted AS i WHERE (i.batch_id IS NOT NULL OR i.after IS NOT NULL) AND i.fence OPERATOR(pg_catalog.=) 0;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT EXISTS (SELECT FROM {schema}.agent AS a WHERE a.idle AND a.present_until OPERATOR(pg_catalog.>) pg_catalog.now()),
        EXISTS (SELECT FROM inserted AS i WHERE i.batch_id IS NOT NULL AND i.fence OPERATOR(pg_catalog.=) 0)
    INTO idle, batched;
    IF idle THEN
        PERFORM pg_catalog.pg_notify({channel_literal}, '');
    END IF;
    waiting := ARRAY(SELECT i.id FROM inserted AS i
        WHERE i.after IS NOT NULL AND pg_catalog.cardinality(i.after) OPERATOR(pg_catalog.>) 0 AND i.fence OPERATOR(pg_catalog.=) 0);
    IF pg_catalog.cardinality(waiting) OPERATOR(pg_catalog.>) 0 THEN
        PERFORM {schema}.begin_waiting(waiting);
        IF idle THEN
            PERFORM pg_catalog.pg_notify({channel_literal}, 'after');
        END IF;
    END IF;
    IF batched THEN
        FOR one, n, low, high IN
            SELECT i.batch_id, pg_catalog.count(*), pg_catalog.min(i.id), pg_catalog.max(i.id) FROM inserted AS i
            WHERE i.batch_id IS NOT NULL AND i.fence OPERATOR(pg_catalog.=) 0
            GROUP BY i.batch_id ORDER BY i.batch_id
        LOOP
            PERFORM {schema}.admit_to_batch(one);
            INSERT INTO {schema}.batch_delta (batch_id, total, first_id, last_id) VALUES (one, n, low, high);
        END LOOP;
    END IF;
    RETURN NULL;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.task_inserted() FROM PUBLIC;
