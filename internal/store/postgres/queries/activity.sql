-- What sessions have counted of the attempts of each type.

-- name: keep_activity
-- Sets rows of a session, and returns how many it has taken: those of intervals that are too old or have yet to begin are dropped.
WITH kept AS (
    INSERT INTO {schema}.activity AS a (
        step, at, type, session, started, ended,
        succeeded, failed, rejected, stalled, timed_out, lost, cancelled, deferred, superseded, undelivered, drained,
        latency_1, latency_2, latency_3, latency_4, latency_5, latency_6, latency_7, latency_8, latency_9, latency_10,
        latency_11, latency_12, latency_13, latency_14, latency_15, latency_16, latency_17)
    SELECT g.step, g.at, g.type, @session, g.started, g.ended,
        coalesce(g.o[1], 0), coalesce(g.o[2], 0), coalesce(g.o[3], 0), coalesce(g.o[4], 0), coalesce(g.o[5], 0),
        coalesce(g.o[6], 0), coalesce(g.o[7], 0), coalesce(g.o[8], 0), coalesce(g.o[9], 0), coalesce(g.o[10], 0),
        coalesce(g.o[11], 0), coalesce(g.l[1], 0), coalesce(g.l[2], 0), coalesce(g.l[3], 0), coalesce(g.l[4], 0),
        coalesce(g.l[5], 0), coalesce(g.l[6], 0), coalesce(g.l[7], 0), coalesce(g.l[8], 0), coalesce(g.l[9], 0),
        coalesce(g.l[10], 0), coalesce(g.l[11], 0), coalesce(g.l[12], 0), coalesce(g.l[13], 0), coalesce(g.l[14], 0),
        coalesce(g.l[15], 0), coalesce(g.l[16], 0), coalesce(g.l[17], 0)
    FROM (
        SELECT u.step, u.at, u.keep, u.type, u.started, u.ended, u.outcomes::integer[] AS o, u.latency::integer[] AS l
        FROM unnest(@steps::smallint[], @ats::timestamptz[], @keeps::bigint[], @types::text[], @started::integer[], @ended::integer[],
                    @outcomes::text[], @latency::text[])
            AS u (step, at, keep, type, started, ended, outcomes, latency)
    ) AS g
    WHERE g.at <= now() + @ahead::bigint * interval '1 microsecond' AND g.at > now() - g.keep * interval '1 microsecond'
    ON CONFLICT (step, at, type, session) DO UPDATE SET
        started = excluded.started, ended = excluded.ended,
        succeeded = excluded.succeeded, failed = excluded.failed, rejected = excluded.rejected,
        stalled = excluded.stalled, timed_out = excluded.timed_out, lost = excluded.lost,
        cancelled = excluded.cancelled, deferred = excluded.deferred, superseded = excluded.superseded,
        undelivered = excluded.undelivered, drained = excluded.drained, latency_1 = excluded.latency_1,
        latency_2 = excluded.latency_2, latency_3 = excluded.latency_3, latency_4 = excluded.latency_4,
        latency_5 = excluded.latency_5, latency_6 = excluded.latency_6, latency_7 = excluded.latency_7,
        latency_8 = excluded.latency_8, latency_9 = excluded.latency_9, latency_10 = excluded.latency_10,
        latency_11 = excluded.latency_11, latency_12 = excluded.latency_12, latency_13 = excluded.latency_13,
        latency_14 = excluded.latency_14, latency_15 = excluded.latency_15, latency_16 = excluded.latency_16,
        latency_17 = excluded.latency_17
    RETURNING 1
)
SELECT count(*) FROM kept

-- name: activity_time
SELECT now()

-- name: activity
-- Sums the rows of intervals over all sessions, by type; but those of types that are not among the first @top together, as ''. type '' of
-- the arguments means all types. The rows are summed in the order of their index first, which takes a third of the time of all in one.
WITH each AS MATERIALIZED (
    SELECT a.at, a.type, sum(a.started) + sum(a.ended) AS attempts,
        sum(a.succeeded) AS succeeded, sum(a.failed) AS failed, sum(a.rejected) AS rejected, sum(a.stalled) AS stalled,
        sum(a.timed_out) AS timed_out, sum(a.lost) AS lost, sum(a.cancelled) AS cancelled, sum(a.deferred) AS deferred,
        sum(a.superseded) AS superseded, sum(a.undelivered) AS undelivered, sum(a.drained) AS drained,
        sum(a.latency_1) AS latency_1, sum(a.latency_2) AS latency_2, sum(a.latency_3) AS latency_3,
        sum(a.latency_4) AS latency_4, sum(a.latency_5) AS latency_5, sum(a.latency_6) AS latency_6,
        sum(a.latency_7) AS latency_7, sum(a.latency_8) AS latency_8, sum(a.latency_9) AS latency_9,
        sum(a.latency_10) AS latency_10, sum(a.latency_11) AS latency_11, sum(a.latency_12) AS latency_12,
        sum(a.latency_13) AS latency_13, sum(a.latency_14) AS latency_14, sum(a.latency_15) AS latency_15,
        sum(a.latency_16) AS latency_16, sum(a.latency_17) AS latency_17
    FROM {schema}.activity AS a
    WHERE a.step = @step AND a.at BETWEEN @from AND @last AND (@type::text = '' OR a.type = @type)
    GROUP BY a.at, a.type
), top AS MATERIALIZED (
    SELECT e.type FROM each AS e WHERE e.type <> '' GROUP BY e.type ORDER BY sum(e.attempts) DESC, e.type LIMIT @top
)
SELECT e.at, e.type,
    ARRAY[e.succeeded, e.failed, e.rejected, e.stalled, e.timed_out, e.lost, e.cancelled, e.deferred, e.superseded, e.undelivered,
        e.drained],
    ARRAY[e.latency_1, e.latency_2, e.latency_3, e.latency_4, e.latency_5, e.latency_6, e.latency_7, e.latency_8, e.latency_9,
        e.latency_10, e.latency_11, e.latency_12, e.latency_13, e.latency_14, e.latency_15, e.latency_16, e.latency_17]
FROM each AS e WHERE e.type IN (SELECT t.type FROM top AS t)
UNION ALL
SELECT e.at, '',
    ARRAY[sum(e.succeeded), sum(e.failed), sum(e.rejected), sum(e.stalled), sum(e.timed_out), sum(e.lost), sum(e.cancelled),
        sum(e.deferred), sum(e.superseded), sum(e.undelivered), sum(e.drained)]::bigint[],
    ARRAY[sum(e.latency_1), sum(e.latency_2), sum(e.latency_3), sum(e.latency_4), sum(e.latency_5), sum(e.latency_6),
        sum(e.latency_7), sum(e.latency_8), sum(e.latency_9), sum(e.latency_10), sum(e.latency_11), sum(e.latency_12),
        sum(e.latency_13), sum(e.latency_14), sum(e.latency_15), sum(e.latency_16), sum(e.latency_17)]::bigint[]
FROM each AS e WHERE e.type NOT IN (SELECT t.type FROM top AS t) GROUP BY e.at
ORDER BY 1, 2

-- name: forget_activity
-- Removes rows of intervals that are over for longer than such rows are kept (@age, microseconds), or that no clock may have shown yet.
DELETE FROM {schema}.activity AS a
WHERE (a.step, a.at, a.type, a.session) IN (
    (SELECT o.step, o.at, o.type, o.session FROM {schema}.activity AS o
     WHERE o.step = @step AND o.at <= now() - @age::bigint * interval '1 microsecond' ORDER BY o.at LIMIT @limit)
    UNION ALL
    (SELECT f.step, f.at, f.type, f.session FROM {schema}.activity AS f
     WHERE f.step = @step AND f.at > now() + @ahead::bigint * interval '1 microsecond' ORDER BY f.at LIMIT @limit))
