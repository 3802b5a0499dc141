-- Rolls a batch back: first all of it stops, then the finished rows that can be are rolled back, started newest first: of
-- the next so many rows. They are due within the second before the request, a microsecond apart, so that claims keep to
-- the order.
CREATE OR REPLACE FUNCTION {schema}.step_rollback(
    INOUT o {schema}.operation, most bigint, OUT changed bigint, OUT over boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    s      record;
    next   record;
    before bigint;
    room   bigint;
BEGIN
    changed := 0;
    IF NOT o.stopped THEN
        SELECT * INTO s FROM {schema}.step_stop(o, most);
        o := s.o;
        changed := s.changed;
        over := false;
        IF NOT s.over THEN
            RETURN;
        END IF;
        o.stopped := true;
        o.after_id := NULL;
    END IF;
    room := most - changed;
    IF room <= 0 THEN
        RETURN;
    END IF;
    before := o.done + changed;
    -- f names the expression that the index task_archive_batch has. The comparison of whole rows is one walk backwards along
    -- that index, from the cursor on, and batch_id IS NOT NULL is its condition.
    WITH page AS (
        SELECT f.id, f.began, f.policy, f.type
        FROM (SELECT a.batch_id, a.id, a.policy, a.type,
                  CASE WHEN a.ever_started AND a.state IN ('succeeded', 'failed', 'cancelled') THEN coalesce(a.started_at,
                      a.finished_at) END AS began
              FROM {schema}.task_archive AS a) AS f
        WHERE f.batch_id IS NOT NULL
          AND (f.batch_id, f.began, f.id)
              < (o.batch_id, coalesce(o.after_at, 'infinity'), coalesce(o.after_id, 9223372036854775807))
          AND (f.batch_id, f.began, f.id) > (o.batch_id, '-infinity', 0)
        ORDER BY f.batch_id DESC, f.began DESC, f.id DESC LIMIT room
    ), seen AS (
        SELECT p.*, row_number() OVER (ORDER BY p.began DESC, p.id DESC) AS place FROM page AS p
    ), fit AS (
        SELECT e.id, row_number() OVER (ORDER BY e.place) AS n FROM seen AS e, {schema}.with_rollback() AS u
        WHERE e.policy = ANY (u.hashes) OR e.type = ANY (u.types)
    )
    SELECT coalesce(array_agg(f.id ORDER BY f.n), '{}') AS ids,
        coalesce(array_agg(least(o.requested_at - interval '1 second' + (before + f.n) * interval '1 microsecond',
            clock_timestamp()) ORDER BY f.n), '{}') AS dues,
        (SELECT count(*) FROM seen) AS n,
        (SELECT e.began FROM seen AS e ORDER BY e.place DESC LIMIT 1) AS at,
        (SELECT e.id FROM seen AS e ORDER BY e.place DESC LIMIT 1) AS id
    INTO next FROM fit AS f;
    SELECT * INTO s FROM {schema}.step_revive(next.ids, next.dues, 'rollback');
    changed := changed + s.changed;
    o.refused := o.refused + s.refused;
    o.missed := o.missed OR s.missed;
    o.after_at := next.at;
    o.after_id := next.id;
    over := next.n < room AND NOT o.missed;
    IF next.n < room AND o.missed THEN
        o.after_at := NULL;
        o.after_id := NULL;
        o.missed := false;
        o.refused := 0;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.step_rollback({schema}.operation, bigint) FROM PUBLIC;
