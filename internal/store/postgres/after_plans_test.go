package postgres_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	sizes "github.com/leasehold/leasehold/test/harness"
)

// fillDays makes partitions for %[1]d days back, and puts rows into all of them, of which one in ten has failed. Autovacuum leaves all
// tables alone: what it analyzes has functions plan anew, and planners read thousands of pages of the catalog.
const fillDays = `
DO $do$ DECLARE name text; BEGIN
    FOR n IN 0..%[1]d LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS SCHEMA.task_archive_%%s PARTITION OF SCHEMA.task_archive FOR VALUES FROM (%%L) TO (%%L)',
            to_char((now() AT TIME ZONE 'UTC')::date - n, 'YYYYMMDD'),
            ((now() AT TIME ZONE 'UTC')::date - n)::timestamp AT TIME ZONE 'UTC',
            ((now() AT TIME ZONE 'UTC')::date - n + 1)::timestamp AT TIME ZONE 'UTC');
    END LOOP;
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'SCHEMA' AND tablename ~ '^(task|dependen|follow|.*_note)' LOOP
        IF name <> 'task_archive' THEN
            EXECUTE format('ALTER TABLE SCHEMA.%%I SET (autovacuum_enabled = off)', name);
        END IF;
    END LOOP;
END $do$;
INSERT INTO SCHEMA.task (type) SELECT 'a' FROM generate_series(1, 20000);
INSERT INTO SCHEMA.task_archive (id, run_at, created_at, finished_at, fence, session, attempt, deferrals, priority, ever_started,
        state, type, payload)
    SELECT 1000000 + n, now(), transaction_timestamp(), now() - (n %% %[1]d) * interval '1 day', 2, 1, 1, 0, 0, true,
        CASE n / %[1]d %% 10 WHEN 9 THEN 'failed' ELSE 'succeeded' END, 'a', '{}' FROM generate_series(1, 20000) AS n;
ANALYZE SCHEMA.task; ANALYZE SCHEMA.task_archive;
`

// waitForDays has 100 rows wait, from an id (%[4]d) on, each for two rows that finished within so many days (%[1]d to %[2]d), in that state (%[3]s).
const waitForDays = `
INSERT INTO SCHEMA.task (id, type, after) OVERRIDING SYSTEM VALUE
    SELECT %[4]d + a.n, 'a', ARRAY[a.id, a.other] FROM (
        SELECT r.id, lead(r.id) OVER (ORDER BY r.id) AS other, row_number() OVER (ORDER BY r.id) AS n FROM SCHEMA.task_archive AS r
        WHERE r.finished_at BETWEEN now() - interval '%[2]d days' AND now() - interval '%[1]d days' AND r.state = '%[3]s') AS a
    WHERE a.n <= 100 AND a.other IS NOT NULL;
`

// TestStepsOfWaitingRowsReadLittle makes steps of each kind over the archive of many days. What finished within the last two days is found without
// a look at the others.
func TestStepsOfWaitingRowsReadLittle(t *testing.T) {
	t.Parallel()
	days := sizes.Sized(40, 400)
	h := newFreshHarness(t)
	h.exec(t, fmt.Sprintf(fillDays, days))
	conn := pgtest.Connect(t)
	// step makes a step, and asserts how many pages it touches for each row.
	step := func(name, text string, rows, most int) {
		least := stepPages(t, conn, h.q(text), rows*most, `^(task|dependen)`)
		t.Logf("%s: %d pages for %d rows", name, least, rows)
		require.LessOrEqual(t, least, rows*most, name)
	}
	for i, c := range []struct {
		name     string
		from, to int // days
		state    string
		most     int // pages
	}{
		{"lately", 0, 1, "succeeded", 60}, {"lately, failed", 0, 1, "failed", 90},
		{"long ago", 5, days, "succeeded", 40 + 3*days/2}, {"long ago, failed", 5, days, "failed", 70 + 2*days},
	} {
		h.exec(t, fmt.Sprintf(waitForDays, c.from, c.to, c.state, 3000000+1000*i))
		rows := int(h.number(t, `SELECT count(*) FROM SCHEMA.dependent`))
		require.NotZero(t, rows)
		step("look at rows that finished "+c.name, `SELECT SCHEMA.look_at_predecessors(1000)`, rows, 30)
		step("decide about rows that finished "+c.name, `SELECT SCHEMA.decide_dependents(1000)`, rows, c.most)
		require.Zero(t, h.number(t, `SELECT count(*) FROM SCHEMA.dependent`))
	}
	causes := int(h.number(t, `SELECT count(DISTINCT cancelled_for) FROM SCHEMA.task_archive`))
	rows := int(h.number(t, `SELECT count(cancelled_for) FROM SCHEMA.task_archive`))
	h.exec(t, `SELECT SCHEMA.retry(a.cancelled_for) FROM (SELECT DISTINCT cancelled_for FROM SCHEMA.task_archive WHERE cancelled_for IS NOT NULL) AS a`)
	require.EqualValues(t, causes, h.number(t, `SELECT count(*) FROM SCHEMA.revived_note`))
	step("revive", `SELECT SCHEMA.revive_dependents(1000)`, rows, 200+10*days)
	require.Zero(t, h.number(t, `SELECT count(*) FROM SCHEMA.revived_note`))
	step("look again", `SELECT SCHEMA.look_at_predecessors(1000)`, rows, 60)
	h.exec(t, `INSERT INTO SCHEMA.ended_note (id) SELECT DISTINCT on_id FROM SCHEMA.dependency`)
	step("count", `SELECT SCHEMA.count_ends(1000)`, rows, 60)
}
