-- name: secret
-- The store's own key for ping URLs.
SELECT key FROM {schema}.secret

-- name: take_pings
-- Records pings. The function is what SQL's ping calls, too.
SELECT place, answer, counted, cancel, coalesce(reason, ''), remaining_s FROM {schema}.take_pings(@ids, @fences,
    @progress, @messages, @checkpoints, @within)
