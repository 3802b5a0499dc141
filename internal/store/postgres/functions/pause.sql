-- Has agents claim no rows of a type, neither to run nor to roll back; what runs goes on. They learn of it at once where they are notified,
-- and else within a second. reason is what people are told. Returns 'paused', or 'unchanged' where it was.
CREATE OR REPLACE FUNCTION {schema}.pause(type text, reason text DEFAULT NULL, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := {schema}.requester(by);
BEGIN
    IF pause.type IS NULL OR pause.type = '' OR octet_length(pause.type) > 255 THEN
        RAISE EXCEPTION 'type must have 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(pause.reason) > 512 THEN
        RAISE EXCEPTION 'reason must be 512 bytes at most' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO {schema}.type_pause AS p (type, paused_by, reason) VALUES (pause.type, who, nullif(pause.reason, ''))
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'unchanged';
    END IF;
    INSERT INTO {schema}.audit (requested_by, verb, type, reason, answer)
    VALUES (who, 'pause', pause.type, nullif(pause.reason, ''), 'paused');
    PERFORM pg_notify({channel_literal}, 'pause');
    RETURN 'paused';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.pause(text, text, text) FROM PUBLIC;

-- Has agents claim rows of a type again. Returns 'resumed', or 'unchanged' where it was not paused.
CREATE OR REPLACE FUNCTION {schema}.resume(type text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := {schema}.requester(by);
BEGIN
    DELETE FROM {schema}.type_pause AS p WHERE p.type = resume.type;
    IF NOT FOUND THEN
        RETURN 'unchanged';
    END IF;
    INSERT INTO {schema}.audit (requested_by, verb, type, answer) VALUES (who, 'resume', resume.type, 'resumed');
    PERFORM pg_notify({channel_literal}, 'pause');
    RETURN 'resumed';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.resume(text, text) FROM PUBLIC;
