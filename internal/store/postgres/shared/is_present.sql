-- Whether a session is present: it has not expired, and was not seen in the future. Such a one was seen before the clock was set
-- back, and is present again once it has been seen since.
({of}present_until > now() AND {of}seen_at <= now() + interval '1 second')
