-- Why a row of the archive that was cancelled on account of another is not revived with that one; NULL: it is.
ifnull(
    (SELECT printf('task %d is live with its key', live.id) FROM task AS live WHERE live.type = {of}type AND live.key = {of}key),
    (SELECT CASE WHEN b.ended_at IS NOT NULL THEN printf('batch %d has ended', b.id)
            WHEN b.requested IS NOT NULL THEN printf('a %s of batch %d is under way', b.requested, b.id) END
        FROM batch AS b WHERE b.id = {of}batch_id))
