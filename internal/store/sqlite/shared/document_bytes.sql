-- How many bytes the documents of a row have together. octet_length reads a length from the header of the row.
octet_length(payload) + ifnull(octet_length(rollback_payload), 0)
    + ifnull(octet_length(result), 0) + ifnull(octet_length(checkpoint), 0)
