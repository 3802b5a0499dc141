package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// requirePages asserts that a statement touches no more pages than that, with and without our settings.
func requirePages(t *testing.T, texts map[string]string, most map[string]int) {
	t.Helper()
	for how, set := range settings {
		conn := planner(t, set)
		for name, text := range texts {
			n := buffers(t, conn, text)
			t.Logf("%s, %s: %d pages", name, how, n)
			bound, ok := most[name]
			if !ok {
				bound = most[""]
			}
			require.Less(t, n, bound, "%s, %s", name, how)
		}
	}
}

// How many pages a list of orphans touches does not depend on how many rows wait, behind a type that is declared and of the type itself.
func TestOrphansReadFewRows(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(t, `
		INSERT INTO SCHEMA.task (type) SELECT 'declared' FROM generate_series(1, 40000);
		INSERT INTO SCHEMA.task (type) SELECT 'many' FROM generate_series(1, 25000);
		INSERT INTO SCHEMA.task (type) SELECT 'other' || n % 10 FROM generate_series(1, 20000) AS n;
		INSERT INTO SCHEMA.task (type, tenant) SELECT 'tenants', 't' || n % 100 FROM generate_series(1, 15000) AS n`)
	texts := h.OrphanTexts(t, "many")
	for _, analysed := range []bool{false, true} {
		if analysed {
			h.exec(t, `ANALYZE SCHEMA.task`)
		}
		requirePages(t, texts, map[string]int{"orphans": store.CountedRows + 500, "": 100})
	}
	list, err := h.Orphans(t.Context())
	require.NoError(t, err)
	require.False(t, list.More)
	require.Len(t, list.List, 13)
	require.Equal(t, store.OrphanType{Type: "many", Waiting: 1000, Capped: true, Oldest: list.List[1].Oldest}, list.List[1])
}

// How many pages a page of sequences touches does not depend on how many sequences there are, nor on how long they are.
func TestSequencesReadFewRows(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(t, `
		INSERT INTO SCHEMA.task (type, sequence, held) SELECT 'a', 's' || n % 1000, 'sequence' FROM generate_series(1, 30000) AS n;
		INSERT INTO SCHEMA.task (type, sequence, held) SELECT 'b', 'long', 'sequence' FROM generate_series(1, 30000) AS n;
		INSERT INTO SCHEMA.sequence_failure (task_id, type, name) SELECT 1000000 + n, 'a', 'f' || n FROM generate_series(1, 20000) AS n;
		INSERT INTO SCHEMA.sequence_rule (type, declared, on_failure) VALUES ('a', 1, 'continue')`)
	for _, analysed := range []bool{false, true} {
		if analysed {
			h.exec(t, `ANALYZE SCHEMA.task; ANALYZE SCHEMA.sequence_failure`)
		}
		requirePages(t, h.SequenceTexts("a", "s7", 50), map[string]int{"find": 1000, "show": 300})
		requirePages(t, h.SequenceTexts("b", "long", 50), map[string]int{"find": 100, "show": store.CountedRows + 500})
	}
	all, err := h.ListSequences(t.Context(), store.SequenceFilter{Limit: 1000, FromType: "a", FromName: "s998"})
	require.NoError(t, err)
	require.Len(t, all.List, 3, "failures block nothing")
	require.Equal(t, []int{29, 29, 5000}, []int{all.List[0].Waiting, all.List[1].Waiting, all.List[2].Waiting})
	require.True(t, all.List[2].Capped)
}
