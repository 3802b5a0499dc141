-- Has the present sessions with that name or number claim nothing more ('cordon'), claim again ('uncordon'), or exit once what runs has
-- ended ('drain', which cannot be taken back). They learn of it with their next heartbeats. Returns them, each with the state that it
-- gets and whether that changes anything: the members are those of store.AgentOrdered.
CREATE OR REPLACE FUNCTION {schema}.order_agent(agent text, verb text, by text DEFAULT NULL) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who  text := {schema}.requester(by);
    list jsonb := '[]';
    a    {schema}.agent;
    had  text;
    want text := nullif(verb, 'uncordon');
BEGIN
    IF verb IS NULL OR verb NOT IN ('cordon', 'uncordon', 'drain') THEN
        RAISE EXCEPTION 'verb must be cordon, uncordon or drain' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR a IN
        SELECT r.* FROM {schema}.agent AS r
        WHERE r.present_until > now() AND (r.name = order_agent.agent OR r.session::text = order_agent.agent)
        ORDER BY r.session FOR NO KEY UPDATE
    LOOP
        had := CASE WHEN a.draining THEN 'drain' ELSE a.ordered END;
        IF had IS DISTINCT FROM want AND had IS DISTINCT FROM 'drain' THEN
            UPDATE {schema}.agent AS r SET ordered = want, ordered_by = CASE WHEN want IS NOT NULL THEN who END
            WHERE r.session = a.session;
            INSERT INTO {schema}.audit (requested_by, verb, agent, answer) VALUES (who, verb, a.session, 'requested');
        END IF;
        list := list || jsonb_build_object('session', a.session, 'name', a.name,
            'changed', had IS DISTINCT FROM want AND had IS DISTINCT FROM 'drain', 'state', CASE
                WHEN had = 'drain' OR want = 'drain' THEN 'draining' WHEN a.workers = 0 THEN 'observer'
                WHEN want = 'cordon' THEN 'cordoned' ELSE 'working' END);
    END LOOP;
    IF list = '[]' THEN
        RAISE EXCEPTION 'no agent "%" is present', agent USING ERRCODE = 'no_data_found';
    END IF;
    RETURN list;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.order_agent(text, text, text) FROM PUBLIC;
