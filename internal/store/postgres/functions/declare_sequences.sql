-- Notes what a session declares of the sequences of row types, and no more, and puts in force what is to be: of each type the newest declaration
-- of a present session. What no present session declares stays in force unless one of them knows the type. Where all is so already it
-- only reads. What is blocked by a failure that blocks nothing any more gets a note, at each call: so a failure that was being written
-- when the rule changed is found by the next one.
CREATE OR REPLACE FUNCTION {schema}.declare_sequences(by bigint, types text[], rules text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET lock_timeout = '2s' AS
$leasehold$
DECLARE
    own boolean := EXISTS (
        SELECT FROM unnest(types, rules) AS w (type, rule)
        FULL JOIN (
            SELECT d.type, d.on_failure FROM {schema}.sequence_declarer AS r
            JOIN {schema}.sequence_declaration AS d ON d.number = r.number WHERE r.session = by
        ) AS h ON h.type = w.type AND h.on_failure = w.rule
        WHERE w.type IS NULL OR h.type IS NULL);
BEGIN
    IF own OR EXISTS (SELECT FROM {schema}.wanted_sequences()) THEN
        BEGIN
            LOCK TABLE {schema}.sequence_declaration IN SHARE ROW EXCLUSIVE MODE;
            INSERT INTO {schema}.sequence_declaration (type, on_failure)
            SELECT w.type, w.rule FROM unnest(types, rules) AS w (type, rule)
            WHERE NOT EXISTS (SELECT FROM {schema}.sequence_declaration AS d WHERE d.type = w.type AND d.on_failure = w.rule)
            ORDER BY w.type;
            DELETE FROM {schema}.sequence_declarer AS r
            WHERE r.session = by AND NOT EXISTS (
                    SELECT FROM unnest(types, rules) AS w (type, rule)
                    JOIN {schema}.sequence_declaration AS d ON d.type = w.type AND d.on_failure = w.rule WHERE d.number = r.number)
               OR NOT EXISTS (SELECT FROM {schema}.agent AS a WHERE a.session = r.session);
            INSERT INTO {schema}.sequence_declarer (session, number)
            SELECT by, d.number FROM unnest(types, rules) AS w (type, rule)
            JOIN {schema}.sequence_declaration AS d ON d.type = w.type AND d.on_failure = w.rule
            ON CONFLICT (session, number) DO NOTHING;
            INSERT INTO {schema}.sequence_rule (type, declared, on_failure)
            SELECT w.type, w.declared, w.on_failure FROM {schema}.wanted_sequences() AS w WHERE w.declared IS NOT NULL ORDER BY w.type
            ON CONFLICT (type) DO UPDATE SET declared = excluded.declared, on_failure = excluded.on_failure;
            DELETE FROM {schema}.sequence_rule AS s
            WHERE s.type IN (SELECT w.type FROM {schema}.wanted_sequences() AS w WHERE w.declared IS NULL);
        EXCEPTION WHEN lock_not_available THEN
            IF own THEN
                RAISE;
            END IF;
        END;
    END IF;
    INSERT INTO {schema}.sequence_note (type, name)
    SELECT DISTINCT f.type, f.name FROM {schema}.sequence_rule AS s
    CROSS JOIN LATERAL (
        SELECT g.type, g.name FROM {schema}.sequence_failure AS g WHERE g.type = s.type ORDER BY g.type, g.name LIMIT 1000) AS f
    WHERE s.on_failure = 'continue'
      AND NOT EXISTS (SELECT FROM {schema}.sequence_note AS n WHERE n.type = f.type AND n.name = f.name);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.declare_sequences(bigint, text[], text[]) FROM PUBLIC;

-- Returns the row types whose rule is to change, by what sessions declare; declared is NULL where it is to go.
CREATE OR REPLACE FUNCTION {schema}.wanted_sequences() RETURNS TABLE (type text, declared bigint, on_failure text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
    SELECT coalesce(w.type, s.type), w.number, w.on_failure
    FROM (
        SELECT DISTINCT ON (d.type) d.type, d.number, d.on_failure FROM {schema}.agent AS a
        JOIN {schema}.sequence_declarer AS r ON r.session = a.session
        JOIN {schema}.sequence_declaration AS d ON d.number = r.number
        WHERE a.present_until > now() ORDER BY d.type, d.number DESC
    ) AS w
    FULL JOIN {schema}.sequence_rule AS s ON s.type = w.type
    WHERE s.declared IS DISTINCT FROM w.number AND (w.number IS NOT NULL OR EXISTS (
        SELECT FROM {schema}.agent AS a WHERE a.present_until > now() AND s.type = ANY (a.types)))
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.wanted_sequences() FROM PUBLIC;
