-- Returns tasks of a batch as list.sql does. An index has rows that wait by their ids. Those that run, which are few, and
-- those that are finished are sorted ("+ 0"), but for those that have failed: to look for them by id could take the planner through the whole table.
SELECT {info_columns} FROM (
    (SELECT {listed_columns region=coalesce(spilled_from,region) spilled=(coalesce(spilled_from,'')<>'')}, NULL::timestamptz AS finished_at, coalesce(detached, false) AS detached,
         NULL::bigint AS follows, held, nullif(failed_task, id) AS failed_task
     FROM {schema}.task WHERE {live} AND state IN ('pending', 'retry_pending', 'rollback_pending')
     ORDER BY id DESC LIMIT @limit)
    UNION ALL
    (SELECT {listed_columns region=coalesce(spilled_from,region) spilled=(coalesce(spilled_from,'')<>'')}, NULL, coalesce(detached, false), NULL, held, nullif(failed_task, id)
     FROM {schema}.task WHERE {live} AND state IN ('running', 'rollback_running') ORDER BY id + 0 DESC LIMIT @limit)
    UNION ALL
    (SELECT {listed_columns region=region spilled=false}, finished_at, false, NULL, NULL, nullif(failed_task, id)
     FROM {schema}.task_archive WHERE {finished} ORDER BY {order_finished} DESC LIMIT @limit)
    ORDER BY id DESC LIMIT @limit
) AS t {ran_on}
ORDER BY t.id DESC
