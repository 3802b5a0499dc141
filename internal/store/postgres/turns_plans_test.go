package postgres_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// fillTurns has 20,000 rows wait in one sequence and behind one lock, 20 in each of a thousand, and 20,000 without. Autovacuum leaves the tables
// alone: see fillDays.
const fillTurns = `
ALTER TABLE SCHEMA.task SET (autovacuum_enabled = off);
ALTER TABLE SCHEMA.sequence_holder SET (autovacuum_enabled = off);
ALTER TABLE SCHEMA.sequence_note SET (autovacuum_enabled = off);
ALTER TABLE SCHEMA.lock_holder SET (autovacuum_enabled = off);
ALTER TABLE SCHEMA.lock_note SET (autovacuum_enabled = off);
INSERT INTO SCHEMA.task (type, sequence) SELECT 'a', 'many' FROM generate_series(1, 20000);
INSERT INTO SCHEMA.task (type, lock) SELECT 'a', 'many' FROM generate_series(1, 20000);
INSERT INTO SCHEMA.task (type, sequence) SELECT 'a', n % 1000 FROM generate_series(1, 20000) AS n;
INSERT INTO SCHEMA.task (type, lock) SELECT 'a', n % 1000 FROM generate_series(1, 20000) AS n;
INSERT INTO SCHEMA.task (type) SELECT 'a' FROM generate_series(1, 20000);
`

// TestTurnsAndLocksReadLittle: what a claim and a promotion read grows with the rows that they are about, and not with those that wait.
func TestTurnsAndLocksReadLittle(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	h.exec(t, fillTurns)
	conn, other := pgtest.Connect(t), pgtest.Connect(t)
	step := func(name, text string, most int) {
		least := stepPages(t, conn, h.q(text), most, `^(task|sequence_holder|lock_holder)$`)
		t.Logf("%s: %d pages", name, least)
		require.LessOrEqual(t, least, most, name)
	}
	// The first rows of a hundred sequences, or locks; and five hundred rows of the one that has many, of which at most one is taken.
	ids := map[string]string{
		"few":  `(SELECT array_agg(t.id) FROM (SELECT r.id FROM SCHEMA.task AS r WHERE r.COLUMN <> 'many' ORDER BY r.id LIMIT 100) AS t)`,
		"many": `(SELECT array_agg(t.id) FROM (SELECT r.id FROM SCHEMA.task AS r WHERE r.COLUMN = 'many' ORDER BY r.id LIMIT 500) AS t)`,
	}
	for _, analysed := range []string{"", " analysed"} {
		if analysed != "" {
			h.exec(t, `ANALYZE SCHEMA.task; ANALYZE SCHEMA.sequence_holder; ANALYZE SCHEMA.lock_holder`)
		}
		for _, column := range []string{"sequence", "lock"} {
			for _, of := range []string{"few", "many"} {
				var rows, names string
				require.NoError(t, other.QueryRow(t.Context(), h.q(strings.ReplaceAll(`SELECT `+ids[of]+`::text,
					(SELECT array_agg(t.COLUMN ORDER BY u.n)::text FROM unnest(`+ids[of]+`) WITH ORDINALITY AS u (id, n) JOIN SCHEMA.task AS t ON t.id = u.id)`,
					"COLUMN", column))).Scan(&rows, &names))
				take := map[string]string{
					"sequence": `SELECT SCHEMA.take_turns('` + rows + `')`,
					"lock":     `SELECT SCHEMA.take_locks('` + rows + `', '` + names + `', NULL)`,
				}[column]
				step("take "+of+" by "+column+analysed, take, map[string]int{"few": 8000, "many": 12000}[of])
			}
			h.exec(t, map[string]string{
				"sequence": `INSERT INTO SCHEMA.sequence_note (type, name) SELECT 'a', n::text FROM generate_series(1, 99) AS n UNION ALL SELECT 'a', 'many'`,
				"lock":     `INSERT INTO SCHEMA.lock_note (name) SELECT n::text FROM generate_series(1, 99) AS n UNION ALL SELECT 'many'`,
			}[column])
			step("promote by "+column+analysed, map[string]string{
				"sequence": `SELECT SCHEMA.promote_turns(1000)`, "lock": `SELECT SCHEMA.promote_locks(1000)`,
			}[column], 4000)
		}
	}
}
