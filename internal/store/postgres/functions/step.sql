-- Operations are carried out in steps of some thousand rows. The order of locks is: the batch, its operation, the tasks;
-- where it is another, nothing is waited for.

-- Carries on the oldest operation that no other agent carries on and that can go on, by so many rows at most.
CREATE OR REPLACE FUNCTION {schema}.step(
    most bigint, OUT there_are boolean, OUT changed bigint, OUT over boolean, OUT of_verb text, OUT of_batch bigint,
    OUT of_task bigint, OUT all_done bigint, OUT all_refused bigint
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    o    {schema}.operation;
    s    record;
    last bigint := 0;
BEGIN
    there_are := EXISTS (SELECT FROM {schema}.operation AS r WHERE r.ended_at IS NULL);
    changed := 0;
    over := false;
    WHILE changed = 0 AND NOT over LOOP
        SELECT r.* INTO o FROM {schema}.operation AS r
        WHERE r.ended_at IS NULL AND r.id > last AND NOT (r.task_id IS NOT NULL AND EXISTS (
            SELECT FROM {schema}.task AS t WHERE t.id = r.task_id AND t.state = 'running'))
        ORDER BY r.id LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN o.id IS NULL;
        last := o.id;
        IF o.task_id IS NOT NULL THEN
            SELECT * INTO s FROM {schema}.step_one(o);
        ELSIF o.verb = 'retry' THEN
            SELECT * INTO s FROM {schema}.step_retry(o, most);
        ELSIF o.verb = 'cancel' THEN
            SELECT * INTO s FROM {schema}.step_stop(o, most);
        ELSE
            SELECT * INTO s FROM {schema}.step_rollback(o, most);
        END IF;
        o := s.o;
        changed := s.changed;
        over := s.over;
        all_done := o.done + s.changed;
        all_refused := o.refused;
        UPDATE {schema}.operation AS r SET
            stopped = o.stopped, missed = o.missed, after_at = o.after_at, after_id = o.after_id, done = all_done,
            refused = all_refused, ended_at = CASE WHEN s.over THEN clock_timestamp() END
        WHERE r.id = o.id;
    END LOOP;
    IF over THEN
        of_verb := o.verb;
        of_batch := CASE WHEN o.task_id IS NULL THEN o.batch_id END;
        of_task := o.task_id;
        -- A fold has to look at the batch, whose row may be locked by a transaction that waits for the operation.
        IF o.batch_id IS NOT NULL THEN
            INSERT INTO {schema}.batch_delta (batch_id) VALUES (o.batch_id);
        END IF;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.step(bigint) FROM PUBLIC;
