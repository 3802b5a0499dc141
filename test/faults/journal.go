//go:build linux

package faults

// journalSQL has each step of rows and batches written down in the transaction that makes it. Serials rise along with
// what has to wait for one another: of one row, of a batch and its rows, and of a limit and the claims that it bounds. What schedules insert is noted in fired, and
// deleted, both in the transaction that inserts it: no agent runs it. lease_step has who takes named leases, written while the
// row is locked, and the effects of the holders, written under hold_lease.
const journalSQL = `
CREATE SEQUENCE step;
CREATE TABLE journal (
    serial bigint PRIMARY KEY DEFAULT nextval('public.step'), id bigint, batch bigint, state text, fence bigint, attempt int,
    round int, ever_started boolean, outcome text, cause text, archived boolean, type text);
CREATE TABLE journal_batch (
    serial bigint PRIMARY KEY DEFAULT nextval('public.step'), id bigint, round int, sealed boolean, stopping boolean, ended boolean,
    requested text, by_failure boolean);

CREATE FUNCTION journal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.journal (id, batch, state, fence, attempt, round, ever_started, outcome, cause, archived, type)
    VALUES (NEW.id, NEW.batch_id, NEW.state, NEW.fence, NEW.attempt, coalesce(NEW.round, 0), NEW.ever_started, NEW.outcome, NEW.cause,
        TG_ARGV[0]::boolean, NEW.type);
    RETURN NULL;
END $$;
CREATE FUNCTION journal_batch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.journal_batch (id, round, sealed, stopping, ended, requested, by_failure)
    VALUES (NEW.id, NEW.round, NEW.sealed, NEW.stopping, NEW.ended_at IS NOT NULL, NEW.requested, NEW.by_failure);
    RETURN NULL;
END $$;

CREATE TRIGGER journal_new AFTER INSERT ON leasehold.task FOR EACH ROW
    WHEN (NEW.type NOT IN ('` + kindTick + `', '` + kindGrave + `')) EXECUTE FUNCTION journal('false');
CREATE TRIGGER journal_moved AFTER UPDATE ON leasehold.task FOR EACH ROW
    WHEN (OLD.state <> NEW.state OR OLD.fence <> NEW.fence) EXECUTE FUNCTION journal('false');
CREATE TRIGGER journal_ended AFTER INSERT ON leasehold.task_archive FOR EACH ROW EXECUTE FUNCTION journal('true');
CREATE TRIGGER journal_new AFTER INSERT ON leasehold.batch FOR EACH ROW EXECUTE FUNCTION journal_batch();
CREATE TRIGGER journal_moved AFTER UPDATE ON leasehold.batch FOR EACH ROW
    WHEN ((OLD.round, OLD.sealed, OLD.stopping, OLD.ended_at, OLD.requested) IS DISTINCT FROM
          (NEW.round, NEW.sealed, NEW.stopping, NEW.ended_at, NEW.requested)) EXECUTE FUNCTION journal_batch();

CREATE TABLE journal_type (serial bigint PRIMARY KEY DEFAULT nextval('public.step'), id bigint, old text, new text);
CREATE FUNCTION journal_type() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.journal_type (id, old, new) VALUES (NEW.id, OLD.type, NEW.type);
    RETURN NULL;
END $$;
CREATE TRIGGER journal_type AFTER UPDATE OF type ON leasehold.task FOR EACH ROW WHEN (OLD.type <> NEW.type) EXECUTE FUNCTION journal_type();

CREATE TABLE journal_limit (serial bigint PRIMARY KEY DEFAULT nextval('public.step'), type text, name text, most int);
CREATE FUNCTION journal_limit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO public.journal_limit (type) VALUES (OLD.type);
    ELSIF TG_OP = 'INSERT' OR (OLD.name, OLD.most) IS DISTINCT FROM (NEW.name, NEW.most) THEN
        INSERT INTO public.journal_limit (type, name, most) VALUES (NEW.type, NEW.name, NEW.most);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER journal_limit AFTER INSERT OR UPDATE OF name, most OR DELETE ON leasehold.type_limit FOR EACH ROW EXECUTE FUNCTION journal_limit();

CREATE TABLE fired (schedule text, slot timestamptz);
CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.fired SELECT substr(NEW.created_by, 10), (NEW.payload->>'slot')::timestamptz;
    DELETE FROM leasehold.task WHERE id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER fired AFTER INSERT ON leasehold.task FOR EACH ROW WHEN (NEW.type = '` + kindTick + `') EXECUTE FUNCTION fired();

CREATE TABLE grave (serial bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id bigint, state text);
CREATE FUNCTION grave() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.grave (id, state) VALUES ((NEW.payload->>'id')::bigint, NEW.payload->>'state');
    DELETE FROM leasehold.task WHERE id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER grave AFTER INSERT ON leasehold.task FOR EACH ROW WHEN (NEW.type = '` + kindGrave + `') EXECUTE FUNCTION grave();

CREATE TABLE lease_step (
    serial bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text, fence bigint, holder text, what text);
CREATE FUNCTION lease_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO public.lease_step (name, fence, holder, what) VALUES (OLD.name, OLD.fence, OLD.holder, 'free');
    ELSIF NEW.fence > 0 AND (TG_OP = 'INSERT' OR (OLD.fence, OLD.holder) IS DISTINCT FROM (NEW.fence, NEW.holder)) THEN
        INSERT INTO public.lease_step (name, fence, holder, what) VALUES (NEW.name, NEW.fence, NEW.holder, 'taken');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER lease_step AFTER INSERT OR UPDATE OR DELETE ON leasehold.lease FOR EACH ROW EXECUTE FUNCTION lease_step();
`
