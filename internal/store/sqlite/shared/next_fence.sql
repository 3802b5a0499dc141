-- The fence of a claim or a release: above the old one, and no value that an application may have written makes it fail: it is cut to
-- store.MaxFence (4611686018426339328). The two functions cost more than the rest of it, and no row in use needs them.
CASE WHEN task.fence BETWEEN 0 AND 4611686018426339328 THEN task.fence ELSE max(min(task.fence, 4611686018426339328), 0) END + 1
