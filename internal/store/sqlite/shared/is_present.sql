-- Whether a session is present at @now: it has not expired, and was not seen in the future (after @soon). Such a one was seen
-- before the clock was set back, and is present again once it has been seen since.
({of}present_until > @now AND {of}seen_at <= @soon)
