-- name: promote_turns
-- Passes on turns that have ended. The function's parts have to see what has committed since it began.
SELECT promoted, noted, missed, coalesce(next_us, -1), started FROM {schema}.promote_turns(@most, @ask::jsonb)

-- name: turn_notes
-- Whether there may be something for promote_turns to do: mostly there is nothing.
SELECT EXISTS (SELECT FROM {schema}.sequence_note AS n)

-- name: declare_sequences
SELECT {schema}.declare_sequences(@session, @types::text[], @rules::text[])

-- name: list_sequences
-- Sequences in the order of their types and names; @type and @from are those of the first.
SELECT v.type, v.sequence, v.state, v.task_id, v.waiting, v.since, v.failures, now() FROM {schema}.sequences AS v
WHERE (@only::text = '' OR v.type = @only) AND (@name::text = '' OR v.sequence = @name) AND (v.type, v.sequence) >= (@type::text, @from::text)
ORDER BY v.type, v.sequence LIMIT @limit

-- name: sequence_rows
-- The next rows of a sequence.
SELECT t.id FROM {schema}.task AS t WHERE t.type = @type AND t.sequence = @name ORDER BY t.type, t.sequence, t.id LIMIT @limit

-- name: sequence_skip
SELECT {schema}.sequence_skip(@type, @name, nullif(@task::bigint, 0), @by)::text

-- name: sequence_retry
SELECT {schema}.sequence_retry(@type, @name, nullif(@task::bigint, 0), @by)::text

-- name: sequence_cancel
SELECT {schema}.sequence_cancel(@type, @name, by => @by)::text
