-- Records a ping by SQL. progress is a number from 0 to 1, an object of done and total, or any other text, which names a
-- position. Call it in a transaction of its own: nothing is known of the ping until that commits.
CREATE OR REPLACE FUNCTION {schema}.ping(
    id bigint, fence bigint, progress text DEFAULT NULL, checkpoint jsonb DEFAULT NULL, message text DEFAULT NULL,
    next_within_s double precision DEFAULT NULL
) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    said  jsonb;
    reply  record;
    over  integer;
BEGIN
    IF progress ~ '^(0(\.[0-9]{1,30})?|1(\.0{1,30})?|[1-9](\.[0-9]{1,30})?[eE]-[0-9]{1,2})$' THEN
        said := progress::jsonb;
    ELSIF progress LIKE '{%' AND octet_length(progress) <= 1024 THEN
        BEGIN
            said := progress::jsonb;
            IF NOT (said ?& ARRAY['done', 'total'] AND said - 'done' - 'total' = '{}'
                    AND jsonb_typeof(said -> 'done') = 'number' AND jsonb_typeof(said -> 'total') = 'number') THEN
                said := to_jsonb(progress);
            END IF;
        EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
            said := to_jsonb(progress);
        END;
    ELSIF progress <> '' THEN
        said := to_jsonb(progress);
    END IF;
    IF octet_length(said::text) > 1024 THEN
        RAISE EXCEPTION 'progress must be 1 KiB at most' USING ERRCODE = 'invalid_parameter_value';
    ELSIF {schema}.compact_length(checkpoint) > 65536 THEN
        RAISE EXCEPTION 'checkpoint must be 64 KiB at most' USING ERRCODE = 'invalid_parameter_value';
    ELSIF next_within_s <= 0 OR next_within_s = 'NaN' THEN
        RAISE EXCEPTION 'next_within_s must be positive' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- A message is cut rather than refused, between characters, each of which takes 4 bytes at most.
    LOOP
        over := octet_length(message) - 4096;
        EXIT WHEN over <= 0 OR over IS NULL;
        message := left(message, -greatest(over / 4, 1));
    END LOOP;
    -- Wait for a transaction that has the row locked.
    PERFORM FROM {schema}.task AS t WHERE t.id = ping.id AND t.fence = ping.fence FOR NO KEY UPDATE;
    SELECT * INTO reply FROM {schema}.take_pings(ARRAY[id], ARRAY[fence], ARRAY[said::text], ARRAY[message],
        ARRAY[checkpoint::text], ARRAY[next_within_s]);
    IF reply.answer <> 'applied' THEN
        PERFORM {schema}.raise_lease_lost(id, fence);
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object('counted', reply.counted, 'cancel', reply.cancel, 'reason', reply.reason,
        'remaining_s', round(reply.remaining_s::numeric, 3)));
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.ping(bigint, bigint, text, jsonb, text, double precision) FROM PUBLIC;
