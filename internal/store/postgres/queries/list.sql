-- Returns tasks, newest first. The newest of each table are found by an index, then they are one list. {live}, {finished} and {followers} are
-- made from the filters that are set: a statement that has them all, half of them switched off, finds no index. {order_live}
-- and {order_finished} are the id, or what only the index has that is to be used: plans are generic, and the planner guesses wrong.
SELECT {info_columns} FROM (
    (SELECT {listed_columns region=coalesce(spilled_from,region) spilled=(coalesce(spilled_from,'')<>'')}, NULL::timestamptz AS finished_at, coalesce(detached, false) AS detached,
         NULL::bigint AS follows, held, nullif(failed_task, id) AS failed_task
     FROM {schema}.task WHERE {live} ORDER BY {order_live} DESC LIMIT @limit)
    UNION ALL
    (SELECT {listed_columns region=region spilled=false}, finished_at, false, NULL, NULL, nullif(failed_task, id)
     FROM {schema}.task_archive WHERE {finished} ORDER BY {order_finished} DESC LIMIT @limit)
    UNION ALL
    (SELECT {listed_columns region=region spilled=false}, NULL, false, {followed of=follow.} AS follows, NULL, NULL
     FROM {schema}.follow WHERE {followers} ORDER BY id DESC LIMIT @limit)
    ORDER BY id DESC LIMIT @limit
) AS t {ran_on}
ORDER BY t.id DESC
