-- Why a row of the archive that was cancelled on account of another is not revived with that one; NULL: it is.
coalesce(
    (SELECT format('task %s is live with its key', l.id) FROM {schema}.task AS l WHERE l.type = {of}type AND l.key = {of}key LIMIT 1),
    (SELECT CASE WHEN b.ended_at IS NOT NULL THEN format('batch %s has ended', b.id)
            WHEN b.requested IS NOT NULL THEN format('a %s of batch %s is under way', b.requested, b.id) END
        FROM {schema}.batch AS b WHERE b.id = {of}batch_id LIMIT 1))
