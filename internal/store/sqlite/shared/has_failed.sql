-- Whether a finished row failed, also if it was rolled back since: batch.HasFailed.
({of}state = 'failed' OR {of}state = 'rolled_back' AND ifnull({of}cause, '') NOT IN ('succeeded', 'cancelled'))
