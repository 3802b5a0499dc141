//go:build linux

package faults

// chunkTables makes the table that is cut, and has its plan written down in the transactions that move it: each chunk, with how many
// tasks of chunks there are then and how many of them are for keys of its range, and what each pass left out that was there when
// it began. A pass that has planned nothing leaves no row in the ledger, so chunk_sealed is where all of them are.
const chunkTables = `
CREATE TABLE item (id bigint PRIMARY KEY, status int NOT NULL DEFAULT 0, marks int NOT NULL DEFAULT 0, late boolean NOT NULL);
CREATE TABLE chunk_step (
    serial bigint GENERATED ALWAYS AS IDENTITY, task bigint, pass int, half boolean, after_key bigint,
    through_key bigint, live bigint, beside bigint);
CREATE TABLE chunk_seen (pass int, id bigint);
CREATE TABLE chunk_sealed (pass int, chunks int, left_out bigint);

CREATE FUNCTION chunk_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.chunk_step (task, pass, half, after_key, through_key, live, beside)
    SELECT NEW.task_id, NEW.planned, NEW.part <> '', coalesce(NEW.after_key, '0')::bigint, NEW.through_key::bigint,
        count(*), count(*) FILTER (WHERE t.id <> NEW.task_id AND coalesce(t.payload->>'after', '0')::bigint < NEW.through_key::bigint
            AND (t.payload->>'through')::bigint > coalesce(NEW.after_key, '0')::bigint)
    FROM leasehold.task AS t WHERE t.type = '` + kindMark + `';
    RETURN NULL;
END $$;
CREATE TRIGGER chunk_step AFTER INSERT ON leasehold.chunk_range FOR EACH ROW EXECUTE FUNCTION chunk_step();

CREATE FUNCTION chunk_begun() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM public.chunk_seen;
    INSERT INTO public.chunk_seen SELECT NEW.pass, i.id FROM public.item AS i
    WHERE i.status = 0 AND i.id > coalesce(NEW.from_key, '0')::bigint;
    RETURN NULL;
END $$;
CREATE TRIGGER chunk_begun AFTER INSERT ON leasehold.chunk_pass FOR EACH ROW EXECUTE FUNCTION chunk_begun();

CREATE FUNCTION chunk_sealed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.chunk_sealed SELECT NEW.pass, NEW.chunks, count(*)
    FROM public.chunk_seen AS s JOIN public.item AS i ON i.id = s.id AND i.status = 0
    WHERE s.pass = NEW.pass AND NOT EXISTS (SELECT FROM leasehold.chunk_range AS c WHERE NEW.pass IN (c.planned, c.pass)
        AND coalesce(c.after_key, '0')::bigint < i.id AND c.through_key::bigint >= i.id);
    RETURN NULL;
END $$;
CREATE TRIGGER chunk_sealed AFTER UPDATE ON leasehold.chunk_pass FOR EACH ROW
    WHEN (OLD.sealed_at IS NULL AND NEW.sealed_at IS NOT NULL) EXECUTE FUNCTION chunk_sealed();
`

// liteChunkTables are the same. Here the task of a chunk that is split is archived last in its transaction: its halves are not beside it.
const liteChunkTables = `
CREATE TABLE item (
    id INTEGER PRIMARY KEY, status INTEGER NOT NULL DEFAULT 0, marks INTEGER NOT NULL DEFAULT 0, late INTEGER NOT NULL) STRICT;
CREATE TABLE chunk_step (
    serial INTEGER PRIMARY KEY AUTOINCREMENT, task INTEGER, pass INTEGER, half INTEGER, after_key INTEGER,
    through_key INTEGER, live INTEGER, beside INTEGER) STRICT;
CREATE TABLE chunk_seen (pass INTEGER, id INTEGER) STRICT;
CREATE TABLE chunk_sealed (pass INTEGER, chunks INTEGER, left_out INTEGER) STRICT;

CREATE TRIGGER chunk_step AFTER INSERT ON chunk_range BEGIN
    INSERT INTO chunk_step (task, pass, half, after_key, through_key, live, beside)
    SELECT NEW.task_id, NEW.planned, NEW.part <> '', CAST(ifnull(NEW.after_key, '0') AS INTEGER), CAST(NEW.through_key AS INTEGER),
        count(*), count(*) FILTER (WHERE t.id <> NEW.task_id
            AND CAST(ifnull(json_extract(t.payload, '$.after'), '0') AS INTEGER) < CAST(NEW.through_key AS INTEGER)
            AND CAST(json_extract(t.payload, '$.through') AS INTEGER) > CAST(ifnull(NEW.after_key, '0') AS INTEGER)
            AND (NEW.part = '' OR EXISTS (SELECT 1 FROM chunk_range AS c WHERE c.task_id = t.id AND c.state <> 'over')))
    FROM task AS t WHERE t.type = '` + kindMark + `';
END;
CREATE TRIGGER chunk_begun AFTER INSERT ON chunk_pass BEGIN
    DELETE FROM chunk_seen;
    INSERT INTO chunk_seen SELECT NEW.pass, i.id FROM item AS i WHERE i.status = 0 AND i.id > CAST(ifnull(NEW.from_key, '0') AS INTEGER);
END;
CREATE TRIGGER chunk_sealed AFTER UPDATE ON chunk_pass WHEN OLD.sealed_at IS NULL AND NEW.sealed_at IS NOT NULL BEGIN
    INSERT INTO chunk_sealed SELECT NEW.pass, NEW.chunks, count(*)
    FROM chunk_seen AS s JOIN item AS i ON i.id = s.id AND i.status = 0
    WHERE s.pass = NEW.pass AND NOT EXISTS (SELECT 1 FROM chunk_range AS c WHERE NEW.pass IN (c.planned, c.pass)
        AND CAST(ifnull(c.after_key, '0') AS INTEGER) < i.id AND CAST(c.through_key AS INTEGER) >= i.id);
END;
`
