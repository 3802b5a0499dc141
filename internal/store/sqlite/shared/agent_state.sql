-- What a session does, by its last heartbeat.
CASE WHEN present_until <= seen_at THEN 'left' WHEN present_until <= {now} THEN 'absent'
             WHEN draining OR ordered = 'drain' THEN 'draining' WHEN workers = 0 THEN 'observer'
             WHEN ordered = 'cordon' THEN 'cordoned' ELSE 'working' END
