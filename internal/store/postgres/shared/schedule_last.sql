-- What became of the last task of a schedule d. An archived row has a lease_until only if its attempt's end is not known.
SELECT t.created_at AS inserted, true AS live, NULL::timestamptz AS ended, t.state, t.outcome, t.error
FROM {schema}.task AS t WHERE t.id = d.last_task
UNION ALL
SELECT a.created_at, coalesce(a.lease_until > now(), false),
    CASE WHEN a.lease_until > now() THEN NULL ELSE greatest(a.finished_at, a.lease_until) END, a.state, a.outcome, a.error
FROM {schema}.task_archive AS a WHERE a.id = d.last_task
