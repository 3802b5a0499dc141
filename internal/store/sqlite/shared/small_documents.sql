-- Whether no document of a row is above store.MaxMaxPayload (67108864): an agent runs the row. octet_length reads a length from the
-- header of the row.
octet_length(task.payload) <= 67108864 AND ifnull(octet_length(task.rollback_payload), 0) <= 67108864
    AND ifnull(octet_length(task.result), 0) <= 67108864 AND ifnull(octet_length(task.checkpoint), 0) <= 67108864
