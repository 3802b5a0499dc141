-- What a schedule may declare: the rules of schedule.New in Go, and no others (test/storetest compares the two). What is NULL is
-- no mistake, since CASE takes it for false. DISTINCT keeps SQLite from putting the inner expressions into each place that
-- names them, which made an INSERT four times as slow to compile.
SELECT CASE
    WHEN instr(NEW.name || NEW.task || ifnull(NEW.cron, '') || ifnull(NEW.every, '') || ifnull(NEW.after, '') || ifnull(NEW.jitter, '')
        || ifnull(NEW.from_at, '') || ifnull(NEW.until_at, '') || ifnull(NEW.catch_up, ''), char(0)) > 0
    THEN RAISE(ABORT, 'text must be UTF-8 without NUL')
    WHEN kinds = 0 THEN RAISE(ABORT, 'cron: none of cron, every and after is set: set one of them')
    WHEN kinds > 1 THEN RAISE(ABORT, 'cron: more than one of cron, every and after is set: a schedule has one of them')
    WHEN NEW.timezone <> '' AND ifnull(NEW.cron, '') = '' THEN RAISE(ABORT, 'timezone: it has an effect only with cron: leave it out')
    WHEN NEW.timezone <> '' AND NOT EXISTS (SELECT 1 FROM schedule_zone WHERE name = NEW.timezone)
    THEN RAISE(ABORT, 'timezone: there is no such time zone: use an IANA name, as in Asia/Singapore or UTC')
    WHEN length(CAST(NEW.payload AS BLOB)) > (SELECT max_payload FROM setting)
    THEN RAISE(ABORT, 'payload: it is larger than the bound on payloads: see option max-payload of leasehold migrate')
    WHEN NEW.missed NOT IN ('', 'one', 'all', 'none') THEN RAISE(ABORT, 'missed: use one, all or none')
    WHEN NEW.overlap NOT IN ('', 'skip', 'queue') THEN RAISE(ABORT, 'overlap: use skip or queue')
    WHEN NEW.every <> '' AND every IS NULL OR NEW.after <> '' AND after IS NULL OR NEW.jitter <> '' AND jitter IS NULL
        OR NEW.catch_up <> '' AND catch_up IS NULL
    THEN RAISE(ABORT, 'every, after, jitter and catch_up: use whole numbers of d, h, m, s and ms, in this order, as in 1h30m')
    WHEN every NOT BETWEEN 1000 AND 31622400000 OR after NOT BETWEEN 1000 AND 31622400000 OR jitter > 31622400000
        OR catch_up > 31622400000
    THEN RAISE(ABORT, 'every and after must be from 1s to 366d, jitter and catch_up from 0s to 366d')
    WHEN NEW.from_at <> '' AND begins IS NULL OR NEW.until_at <> '' AND ends IS NULL
    THEN RAISE(ABORT, 'from_at and until_at: write RFC 3339 with milliseconds at most, as in 2026-12-01T00:00:00Z or 2026-12-01T08:00:00+08:00')
    WHEN begins NOT BETWEEN 0 AND 253402300799999 OR ends NOT BETWEEN 0 AND 253402300799999
    THEN RAISE(ABORT, 'from_at and until_at: use a year from 1970 to 9999')
    WHEN begins >= ends THEN RAISE(ABORT, 'until_at: it is not after from_at: no slot is between them')
    WHEN jitter > 0 AND jitter >= ifnull(every, after) THEN RAISE(ABORT, 'jitter: it is not shorter than the time between two slots')
    WHEN length(CAST(NEW.cron AS BLOB)) > 512 THEN RAISE(ABORT, 'cron: the expression must be 512 bytes at most')
    END
FROM (
    SELECT DISTINCT (ifnull(NEW.cron, '') <> '') + (ifnull(NEW.every, '') <> '') + (ifnull(NEW.after, '') <> '') AS kinds,
        {schedule_duration of=NEW.every} AS every, {schedule_duration of=NEW.after} AS after, {schedule_duration of=NEW.jitter} AS jitter,
        {schedule_duration of=NEW.catch_up} AS catch_up, {schedule_moment of=NEW.from_at} AS begins, {schedule_moment of=NEW.until_at} AS ends
);
SELECT CASE mistake
    WHEN 0 THEN RAISE(ABORT, 'cron: write five fields, as in 0 3 * * mon-fri: minute, hour, day of month, month and day of week; or @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly')
    WHEN 1 THEN RAISE(ABORT, 'cron: minute must be a list of *, */n, a, a-b and a-b/n, with values from 0 to 59 and steps to 60')
    WHEN 2 THEN RAISE(ABORT, 'cron: hour must be a list of *, */n, a, a-b and a-b/n, with values from 0 to 23 and steps to 24')
    WHEN 3 THEN RAISE(ABORT, 'cron: day of month must be a list of *, */n, a, a-b and a-b/n, with values from 1 to 31 and steps to 31')
    WHEN 4 THEN RAISE(ABORT, 'cron: month must be a list of *, */n, a, a-b and a-b/n, with values from 1 to 12 or jan to dec, and steps to 12')
    WHEN 5 THEN RAISE(ABORT, 'cron: day of week must be a list of *, */n, a, a-b and a-b/n, with values from 0 to 7 or sun to sat, and steps to 7')
    WHEN 6 THEN RAISE(ABORT, 'cron: the expression never fires: none of its months has such a day')
    WHEN 7 THEN RAISE(ABORT, 'jitter: it is not shorter than the shortest time between two of its times of day')
    END
FROM (SELECT DISTINCT {cron_mistake} AS mistake WHERE NEW.cron <> '');
