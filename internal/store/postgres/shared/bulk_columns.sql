-- The columns of a look of a bulk change. {of} is the table; documents are read where they are asked for.
{of}id, {of}fence, {of}state, {of}type, {of}batch_id, {of}ever_started, {of}policy, {of}created_at, {finished}::timestamptz AS finished_at,
CASE WHEN @labels::boolean THEN {of}labels END AS labels, CASE WHEN @errors::boolean THEN left({of}error, @most_error::integer) END AS error,
{of}cancel_requested_at IS NOT NULL AS cancelled, {follower}::boolean AS follower
