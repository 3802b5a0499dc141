-- Whether a row of lease has lapsed.
EXISTS (SELECT 1 FROM lapsed_lease WHERE lapsed_lease.fence = {of}fence)
