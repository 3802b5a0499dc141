-- What a claim notes of limits: that there was none; claim_limited.sql has the limit's name.
, limited = NULL
