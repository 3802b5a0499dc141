-- What a schedule may declare: the rules of schedule.New in Go, and no others (test/storetest compares the two). Each function
-- returns what it read, or raises what is wrong with it.

-- Reads a duration in milliseconds: whole numbers of d, h, m, s and ms, in this order. NULL where there is none.
CREATE OR REPLACE FUNCTION {schema}.schedule_duration(field text, value text, lowest bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    most  CONSTANT bigint := 366::bigint * 86400000;
    parts text[] := regexp_match(value, '^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$');
    ms    numeric;
BEGIN
    IF coalesce(value, '') = '' THEN
        RETURN NULL;
    ELSIF parts IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE =
            field || ': use whole numbers of d, h, m, s and ms, in this order, as in ''1h30m''';
    END IF;
    ms := coalesce(rtrim(parts[1], 'd')::numeric, 0) * 86400000 + coalesce(rtrim(parts[2], 'h')::numeric, 0) * 3600000
        + coalesce(rtrim(parts[3], 'm')::numeric, 0) * 60000 + coalesce(rtrim(parts[4], 's')::numeric, 0) * 1000
        + coalesce(rtrim(parts[5], 'ms')::numeric, 0);
    IF ms < lowest OR ms > most THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE =
            field || ': it must be from ' || CASE lowest WHEN 0 THEN '0s' ELSE '1s' END || ' to 366d';
    END IF;
    RETURN ms;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.schedule_duration(text, text, bigint) FROM PUBLIC;

-- Reads a moment, RFC 3339 with milliseconds at most, as milliseconds since 1970. NULL where there is none.
CREATE OR REPLACE FUNCTION {schema}.schedule_moment(field text, value text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    p  text[] := regexp_match(value, '^([0-9]{4})-(0[1-9]|1[0-2])-([0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])'
        || '(?:\.([0-9]{1,3}))?(?:Z|([+-])(0[0-9]|1[0-4]):([0-5][0-9]))$');
    first date;
    ms bigint;
BEGIN
    IF coalesce(value, '') = '' THEN
        RETURN NULL;
    END IF;
    IF p IS NOT NULL AND p[1] >= '1969' THEN
        first := make_date(p[1]::integer, p[2]::integer, 1);
        IF p[3]::integer BETWEEN 1 AND extract(day FROM first + interval '1 month' - interval '1 day') THEN
            ms := ((((first - date '1970-01-01' + p[3]::bigint - 1) * 24 + p[4]::bigint) * 60 + p[5]::bigint) * 60 + p[6]::bigint)
                * 1000 + rpad(coalesce(p[7], ''), 3, '0')::bigint
                - CASE p[8] WHEN '+' THEN 1 WHEN '-' THEN -1 ELSE 0 END
                    * coalesce(p[9]::bigint * 60 + p[10]::bigint, 0) * 60000;
        END IF;
    ELSIF p IS NOT NULL THEN
        ms := -1;
    END IF;
    IF ms IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE =
            field || ': write RFC 3339 with milliseconds at most, as in 2026-12-01T00:00:00Z or 2026-12-01T08:00:00+08:00';
    ELSIF ms < 0 OR ms > 253402300799999 THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = field || ': use a year from 1970 to 9999';
    END IF;
    RETURN ms;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.schedule_moment(text, text) FROM PUBLIC;

-- Reads one value of a field of a cron expression: a number of one or two digits, or a name of three letters. NULL: it is none.
CREATE OR REPLACE FUNCTION {schema}.cron_value(value text, lo integer, hi integer, names text) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    n integer;
BEGIN
    IF length(value) = 3 AND strpos(names, value) % 3 = 1 THEN
        n := lo + strpos(names, value) / 3;
    ELSIF value ~ '^[0-9]{1,2}$' THEN
        n := value::integer;
    END IF;
    RETURN CASE WHEN n BETWEEN lo AND hi THEN n END;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cron_value(text, integer, integer, text) FROM PUBLIC;

-- Returns the values that a field of a cron expression lists. steps is the largest step.
CREATE OR REPLACE FUNCTION {schema}.cron_values(
    field text, word text, lo integer, hi integer, steps integer, names text DEFAULT ''
) RETURNS integer[]
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    item  text;
    p     text[];
    a     integer;
    b     integer;
    n     integer;
    found integer[] := '{}';
BEGIN
    FOREACH item IN ARRAY string_to_array(word, ',') LOOP
        -- The values, and the step; the ends of a range.
        p := regexp_match(item, '^(?:(\*)|([^-/]*)(-)?([^/]*))(?:(/)(.*))?$');
        a := CASE WHEN p[1] IS NULL THEN {schema}.cron_value(p[2], lo, hi, names) ELSE lo END;
        b := CASE WHEN p[1] IS NOT NULL THEN CASE hi WHEN 7 THEN 6 ELSE hi END
            WHEN p[3] IS NOT NULL THEN {schema}.cron_value(p[4], lo, hi, names)
            WHEN p[4] = '' AND p[5] IS NULL THEN a END;
        n := CASE WHEN p[5] IS NULL THEN 1 WHEN p[6] ~ '^[0-9]{1,2}$' THEN p[6]::integer END;
        IF p IS NULL OR a IS NULL OR b IS NULL OR n IS NULL OR a > b OR n NOT BETWEEN 1 AND steps THEN
            RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = 'cron: ' || field || ' must be a list of *, */n, a, a-b and a-b/n, with '
                || 'values from ' || lo || ' to ' || hi || CASE names WHEN '' THEN '' ELSE ' or names of three letters' END
                || ' and steps to ' || steps;
        END IF;
        found := found || ARRAY(SELECT v FROM generate_series(a, b, n) AS v);
    END LOOP;
    RETURN found;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cron_values(text, text, integer, integer, integer, text) FROM PUBLIC;

-- Checks a cron expression, and returns the shortest time between two of its times of day in minutes, as if it fired on every day.
CREATE OR REPLACE FUNCTION {schema}.check_cron(expr text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    -- Only ASCII letters become small: no other is right, and none must become one.
    line   text := btrim(translate(expr, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'), E' \t');
    words  text[];
    minute integer[];
    hour   integer[];
    dom    integer[];
    month  integer[];
    dow    integer[];
    needs_both boolean;
BEGIN
    IF octet_length(expr) > 512 THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = 'cron: the expression must be 512 bytes at most';
    END IF;
    IF left(line, 1) = '@' THEN
        line := CASE WHEN line IN ('@yearly', '@annually') THEN '0 0 1 1 *' WHEN line = '@monthly' THEN '0 0 1 * *'
            WHEN line = '@weekly' THEN '0 0 * * 0' WHEN line IN ('@daily', '@midnight') THEN '0 0 * * *'
            WHEN line = '@hourly' THEN '0 * * * *' ELSE '' END;
    END IF;
    words := regexp_split_to_array(line, E'[ \t]+');
    IF array_length(words, 1) <> 5 THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = 'cron: write five fields, as in ''0 3 * * mon-fri'': minute, hour, day of '
            || 'month, month and day of week; or @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly';
    END IF;
    minute := {schema}.cron_values('minute', words[1], 0, 59, 60);
    hour := {schema}.cron_values('hour', words[2], 0, 23, 24);
    dom := {schema}.cron_values('day of month', words[3], 1, 31, 31);
    month := {schema}.cron_values('month', words[4], 1, 12, 12, 'janfebmaraprmayjunjulaugsepoctnovdec');
    dow := ARRAY(SELECT d % 7 FROM unnest({schema}.cron_values('day of week', words[5], 0, 7, 7, 'sunmontuewedthufrisat')) AS d);
    needs_both := left(words[3], 1) = '*' OR left(words[5], 1) = '*';
    IF needs_both AND NOT EXISTS (SELECT FROM unnest(month) AS m, unnest(dom) AS d
            WHERE d <= CASE WHEN m = 2 THEN 29 WHEN m IN (4, 6, 9, 11) THEN 30 ELSE 31 END) THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = 'cron: the expression never fires: none of its months has such a day';
    END IF;
    RETURN (SELECT least(min(t.at - t.before), 1440 + min(t.at) - max(t.at)) FROM (
        SELECT h * 60 + m AS at, lag(h * 60 + m) OVER (ORDER BY h * 60 + m) AS before
        FROM (SELECT DISTINCT unnest(hour)) AS a (h), (SELECT DISTINCT unnest(minute)) AS b (m)
    ) AS t);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.check_cron(text) FROM PUBLIC;

-- Refuses a schedule that agents could not use. It runs with its owner's rights, since applications may not call the functions
-- above or read schedule_zone.
CREATE OR REPLACE FUNCTION {schema}.schedule_declared() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    kinds  integer := (coalesce(NEW.cron, '') <> '')::integer + (coalesce(NEW.every, '') <> '')::integer
        + (coalesce(NEW.after, '') <> '')::integer;
    jitter bigint := {schema}.schedule_duration('jitter', NEW.jitter, 0);
    gap    bigint; -- in milliseconds
    wrong  text;
BEGIN
    wrong := CASE
        WHEN kinds = 0 THEN 'cron: none of cron, every and after is set: set one of them'
        WHEN kinds > 1 THEN 'cron: more than one of cron, every and after is set: a schedule has one of them'
        WHEN NEW.timezone <> '' AND coalesce(NEW.cron, '') = '' THEN 'timezone: it has an effect only with cron: leave it out'
        WHEN NEW.timezone <> '' AND NOT EXISTS (SELECT FROM {schema}.schedule_zone AS z WHERE z.name = NEW.timezone)
            THEN 'timezone: there is no such time zone: use an IANA name, as in Asia/Singapore or UTC'
        WHEN pg_column_size(NEW.payload) > (SELECT s.max_payload FROM {schema}.setting AS s)
            THEN 'payload: it is larger than the bound on payloads: see option max-payload of leasehold migrate'
        WHEN NEW.missed NOT IN ('', 'one', 'all', 'none') THEN 'missed: use one, all or none'
        WHEN NEW.overlap NOT IN ('', 'skip', 'queue') THEN 'overlap: use skip or queue'
        WHEN {schema}.schedule_moment('from_at', NEW.from_at) >= {schema}.schedule_moment('until_at', NEW.until_at)
            THEN 'until_at: it is not after from_at: no slot is between them'
    END;
    PERFORM {schema}.schedule_moment('until_at', NEW.until_at), {schema}.schedule_duration('catch_up', NEW.catch_up, 0);
    gap := coalesce({schema}.schedule_duration('every', NEW.every, 1000), {schema}.schedule_duration('after', NEW.after, 1000));
    IF wrong IS NULL AND gap IS NULL THEN
        gap := {schema}.check_cron(NEW.cron) * 60000;
    END IF;
    IF wrong IS NULL AND jitter > 0 AND jitter >= gap THEN
        wrong := CASE WHEN NEW.cron <> '' THEN 'jitter: it is not shorter than the shortest time between two of its times of day'
            ELSE 'jitter: it is not shorter than the time between two slots' END;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = wrong;
    END IF;
    RETURN NEW;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.schedule_declared() FROM PUBLIC;
