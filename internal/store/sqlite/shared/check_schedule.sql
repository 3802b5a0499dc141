-- What a schedule may declare: the rules of schedule.New in Go, and no others (test/storetest compares the two). What is NULL is
-- no mistake, since WHERE takes it for false.
SELECT RAISE(ABORT, 'text must be UTF-8 without NUL')
WHERE instr(NEW.name || NEW.task || ifnull(NEW.cron, '') || ifnull(NEW.every, '') || ifnull(NEW.after, '') || ifnull(NEW.jitter, '')
    || ifnull(NEW.from_at, '') || ifnull(NEW.until_at, '') || ifnull(NEW.catch_up, ''), char(0)) > 0;
SELECT RAISE(ABORT, 'cron: none of cron, every and after is set: set one of them')
WHERE ifnull(NEW.cron, '') = '' AND ifnull(NEW.every, '') = '' AND ifnull(NEW.after, '') = '';
SELECT RAISE(ABORT, 'cron: more than one of cron, every and after is set: a schedule has one of them')
WHERE (ifnull(NEW.cron, '') <> '') + (ifnull(NEW.every, '') <> '') + (ifnull(NEW.after, '') <> '') > 1;
SELECT RAISE(ABORT, 'timezone: it has an effect only with cron: leave it out')
WHERE NEW.timezone <> '' AND ifnull(NEW.cron, '') = '';
SELECT RAISE(ABORT, 'timezone: there is no such time zone: use an IANA name, as in Asia/Singapore or UTC')
WHERE NEW.timezone <> '' AND NOT EXISTS (SELECT 1 FROM zone WHERE name = NEW.timezone);
SELECT RAISE(ABORT, 'missed: use one, all or none') WHERE NEW.missed NOT IN ('', 'one', 'all', 'none');
SELECT RAISE(ABORT, 'overlap: use skip or queue') WHERE NEW.overlap NOT IN ('', 'skip', 'queue');
SELECT CASE
    WHEN value IS NULL THEN RAISE(ABORT, 'every, after, jitter and catch_up: use whole numbers of d, h, m, s and ms, in this order, as in 1h30m')
    WHEN value < least OR value > 31622400000 THEN RAISE(ABORT, 'every and after must be from 1s to 366d, jitter and catch_up from 0s to 366d')
    END
FROM (
    SELECT 1000 AS least, {schedule_duration of=NEW.every} AS value WHERE NEW.every <> ''
    UNION ALL SELECT 1000, {schedule_duration of=NEW.after} WHERE NEW.after <> ''
    UNION ALL SELECT 0, {schedule_duration of=NEW.jitter} WHERE NEW.jitter <> ''
    UNION ALL SELECT 0, {schedule_duration of=NEW.catch_up} WHERE NEW.catch_up <> ''
);
SELECT CASE
    WHEN value IS NULL THEN RAISE(ABORT, 'from_at and until_at: write RFC 3339 with milliseconds at most, as in 2026-12-01T00:00:00Z or 2026-12-01T08:00:00+08:00')
    WHEN value NOT BETWEEN 0 AND 253402300799999 THEN RAISE(ABORT, 'from_at and until_at: use a year from 1970 to 9999')
    END
FROM (SELECT {schedule_moment of=NEW.from_at} AS value WHERE NEW.from_at <> '' UNION ALL SELECT {schedule_moment of=NEW.until_at} WHERE NEW.until_at <> '');
SELECT RAISE(ABORT, 'until_at: it is not after from_at: no slot is between them')
WHERE NEW.from_at <> '' AND NEW.until_at <> '' AND {schedule_moment of=NEW.from_at} >= {schedule_moment of=NEW.until_at};
SELECT RAISE(ABORT, 'jitter: it is not shorter than the shortest time between two slots')
WHERE NEW.jitter <> '' AND {schedule_duration of=NEW.jitter} > 0 AND ifnull(NEW.cron, '') = '' AND {schedule_duration of=NEW.jitter} >= iif(NEW.every <> '', {schedule_duration of=NEW.every}, {schedule_duration of=NEW.after});
SELECT RAISE(ABORT, 'cron: the expression must be 512 bytes at most') WHERE length(CAST(NEW.cron AS BLOB)) > 512;
SELECT CASE {cron_mistake}
    WHEN 0 THEN RAISE(ABORT, 'cron: write five fields, as in 0 3 * * mon-fri: minute, hour, day of month, month and day of week; or @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly')
    WHEN 1 THEN RAISE(ABORT, 'cron: minute must be a list of *, */n, a, a-b and a-b/n, with values from 0 to 59 and steps to 60')
    WHEN 2 THEN RAISE(ABORT, 'cron: hour must be a list of *, */n, a, a-b and a-b/n, with values from 0 to 23 and steps to 24')
    WHEN 3 THEN RAISE(ABORT, 'cron: day of month must be a list of *, */n, a, a-b and a-b/n, with values from 1 to 31 and steps to 31')
    WHEN 4 THEN RAISE(ABORT, 'cron: month must be a list of *, */n, a, a-b and a-b/n, with values from 1 to 12 or jan to dec, and steps to 12')
    WHEN 5 THEN RAISE(ABORT, 'cron: day of week must be a list of *, */n, a, a-b and a-b/n, with values from 0 to 7 or sun to sat, and steps to 7')
    WHEN 6 THEN RAISE(ABORT, 'cron: the expression never fires: none of its months has such a day')
    WHEN 7 THEN RAISE(ABORT, 'jitter: it is not shorter than the shortest time between two of its times of day')
    END
WHERE NEW.cron <> '';
