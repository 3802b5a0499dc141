-- How many bytes the largest document of a row has.
max(octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
    ifnull(octet_length(checkpoint), 0))
