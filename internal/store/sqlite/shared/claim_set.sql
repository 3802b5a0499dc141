-- What a claim writes to a row, beside its state. The new fence is above the old one, and no value that an application may
-- have written makes the claim fail: it is cut to store.MaxFence (4611686018426339328).
session = @session, claim = @claim,
    fence = max(min(fence, 4611686018426339328), 0) + 1, attempt = max(min(attempt, 1000000), 0) + 1,
    policy = @policy, claimed_at = @now, lease_until = @lease_until,
    deadline = CASE WHEN deadline IS NULL AND @deadline <> '' THEN strftime('%Y-%m-%dT%H:%M:%fZ', run_at, @deadline) ELSE deadline END
