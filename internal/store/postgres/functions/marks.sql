-- What an attempt of a type with require_progress has reported. The rules are those of Go's task.Marks, and a check
-- compares them.

-- Returns 16 hexadecimal digits that name a JSON value of a kind: the same for equal values, whatever the order of their
-- members and the notation of their numbers. A value is the set of its nodes, each with an id that says where it stands;
-- the digest is the hash of the sorted hashes of all nodes. Go's task.digest returns the same.
CREATE OR REPLACE FUNCTION {schema}.digest_of(kind text, document jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET jit = off AS
$leasehold$
BEGIN
    RETURN (
        WITH RECURSIVE node (id, value) AS (
            SELECT sha256(convert_to(kind, 'UTF8')), document
            UNION ALL
            SELECT sha256(n.id || convert_to(below.name, 'UTF8')), below.value
            FROM node AS n CROSS JOIN LATERAL (
                SELECT 'k' || m.key AS name, m.value
                FROM jsonb_each(CASE jsonb_typeof(n.value) WHEN 'object' THEN n.value ELSE '{}' END) AS m
                UNION ALL
                SELECT 'i' || (e.n - 1), e.value
                FROM jsonb_array_elements(CASE jsonb_typeof(n.value) WHEN 'array' THEN n.value ELSE '[]' END)
                    WITH ORDINALITY AS e (value, n)
            ) AS below
        ), hashed AS (
            SELECT sha256(n.id || convert_to(CASE jsonb_typeof(n.value)
                WHEN 'object' THEN 'o'
                WHEN 'array' THEN 'a'
                WHEN 'string' THEN 's' || (n.value #>> '{}')
                WHEN 'number' THEN '#' || trim_scale((n.value #>> '{}')::numeric)
                WHEN 'boolean' THEN left(n.value::text, 1)
                ELSE 'n' END, 'UTF8')) AS hash
            FROM node AS n
        )
        SELECT encode(substr(sha256(string_agg(h.hash, ''::bytea ORDER BY h.hash)), 1, 8), 'hex') FROM hashed AS h
    );
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.digest_of(text, jsonb) FROM PUBLIC;

-- Returns the marks of the attempt with the fence together with more of them: the highest numbers, and the last 8
-- digests. Marks with another fence belong to another attempt and are dropped. Go: task.Marks.Merge.
CREATE OR REPLACE FUNCTION {schema}.merge_marks(marks jsonb, with_fence bigint, more jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    name text;
    seen jsonb;
BEGIN
    IF (marks ->> 'fence')::bigint IS DISTINCT FROM with_fence THEN
        marks := jsonb_build_object('fence', with_fence);
    END IF;
    IF (more ->> 'fence')::bigint IS DISTINCT FROM with_fence THEN
        RETURN marks;
    END IF;
    FOREACH name IN ARRAY ARRAY['number', 'done'] LOOP
        IF (more ->> name)::numeric > coalesce((marks ->> name)::numeric, '-Infinity') THEN
            marks := marks || jsonb_build_object(name, more -> name);
        END IF;
    END LOOP;
    seen := coalesce(marks -> 'seen', '[]');
    FOR name IN SELECT e.digest FROM jsonb_array_elements_text(more -> 'seen') AS e (digest) LOOP
        IF NOT seen ? name THEN
            seen := seen || to_jsonb(name);
            IF jsonb_array_length(seen) > 8 THEN
                seen := seen - 0;
            END IF;
        END IF;
    END LOOP;
    RETURN CASE WHEN seen = '[]' THEN marks ELSE marks || jsonb_build_object('seen', seen) END;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.merge_marks(jsonb, bigint, jsonb) FROM PUBLIC;

-- Returns the marks of the attempt with the fence after it reported this, or NULL where the report is no progress. Go:
-- task.Marks.Advance.
CREATE OR REPLACE FUNCTION {schema}.advance(marks jsonb, with_fence bigint, progress jsonb, checkpoint jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    report jsonb;
    seen   jsonb := '[]';
BEGIN
    IF (marks ->> 'fence')::bigint IS DISTINCT FROM with_fence THEN
        marks := jsonb_build_object('fence', with_fence);
    END IF;
    report := jsonb_build_object('fence', with_fence);
    IF jsonb_typeof(progress) = 'number' THEN
        report := report || jsonb_build_object('number', progress);
    ELSIF jsonb_typeof(progress -> 'done') = 'number' THEN
        report := report || jsonb_build_object('done', progress -> 'done');
    ELSIF progress IS NOT NULL THEN
        seen := seen || to_jsonb({schema}.digest_of('p', progress));
    END IF;
    IF checkpoint IS NOT NULL THEN
        seen := seen || to_jsonb({schema}.digest_of('c', checkpoint));
    END IF;
    report := {schema}.merge_marks(marks, with_fence, report || jsonb_build_object('seen', seen));
    RETURN CASE WHEN report <> marks THEN report END;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.advance(jsonb, bigint, jsonb, jsonb) FROM PUBLIC;
