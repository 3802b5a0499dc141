-- Whether nothing is planned of a plan (p): it is paused, or its pass (s) has a batch (b) that accepts no more rows.
(p.paused_at IS NOT NULL OR s.sealed_at IS NULL AND s.batch_id IS NOT NULL AND (b.id IS NULL OR b.sealed OR b.stopping OR b.ended_at IS NOT NULL))
