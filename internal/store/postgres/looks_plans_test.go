package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// requirePages asserts that a statement touches no more pages than that, with and without our settings.
func requirePages(t *testing.T, texts map[string]string, most map[string]int) {
	t.Helper()
	for how, set := range settings {
		conn := planner(t, set)
		for name, text := range texts {
			bound, ok := most[name]
			if !ok {
				bound = most[""]
			}
			n := pages(t, conn, text, bound-1)
			t.Logf("%s, %s: %d pages", name, how, n)
			require.Less(t, n, bound, "%s, %s", name, how)
		}
	}
}

// How many pages a list of orphans touches does not depend on how many rows wait, behind a type that is declared and of the type itself.
func TestOrphansReadFewRows(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
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
	h := newFreshHarness(t)
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

// archive moves all live rows of a schema to the archive, as if they had succeeded.
const archive = `
	WITH gone AS (DELETE FROM SCHEMA.task RETURNING *)
	INSERT INTO SCHEMA.task_archive (id, run_at, created_at, finished_at, fence, attempt, deferrals, priority, ever_started, state, type,
		payload, batch_id, labels, started_at, policy)
	SELECT id, run_at, created_at, now() - (id % 2) * interval '1 day', 2, 1, 0, 0, true, 'succeeded', type,
		payload, batch_id, labels, now() - (id % 777) * interval '1 s', 1
	FROM gone`

// How many pages a page of a batch touches does not depend on how many finished tasks the batch has, nor on how many others there are.
func TestAPageOfALargeBatchReadsFewRows(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	_, err := h.Maintain(t.Context(), week) // for the partitions
	require.NoError(t, err)
	h.exec(t, `
		INSERT INTO SCHEMA.batch (sealed) VALUES (false), (false);
		INSERT INTO SCHEMA.task (type) SELECT 'a' FROM generate_series(1, 20000);
		INSERT INTO SCHEMA.task (type, batch_id, labels)
			SELECT 'a', 1, CASE WHEN n % 5000 = 0 THEN '{"find": "me"}'::jsonb END FROM generate_series(1, 30000) AS n;
		INSERT INTO SCHEMA.task (type, batch_id) SELECT 'a', 2 FROM generate_series(1, 2001);
		INSERT INTO SCHEMA.task (type) SELECT 'a' FROM generate_series(1, 40000)`)
	h.exec(t, archive)
	page := func(f store.TaskFilter) (ids []task.ID) {
		for {
			p, err := ops.PageTasks(t.Context(), h, f, 0)
			require.NoError(t, err)
			for i := range p.Tasks {
				ids = append(ids, p.Tasks[i].ID)
			}
			if p.LookedBack == nil {
				return ids
			}
			f.Before = p.Before // the machine was busy
		}
	}
	for _, folded := range []bool{false, true} {
		if folded {
			h.exec(t, `SELECT SCHEMA.sum_batches(100)`)
			h.exec(t, `VACUUM ANALYZE SCHEMA.task_archive`)
			require.EqualValues(t, 20001, h.number(t, `SELECT first_id FROM SCHEMA.batch WHERE id = 1`))
			require.EqualValues(t, 50000, h.number(t, `SELECT last_id FROM SCHEMA.batch WHERE id = 1`))
		}
		for name, f := range map[string]store.TaskFilter{
			"newest": {Batch: 1}, "from the middle": {Batch: 1, Before: 30000}, "from behind it": {Batch: 1, Before: 60000},
			"the end": {Batch: 1, Before: 20031},
			"label":   {Batch: 1, Labels: map[string]string{"find": "me"}}, "another": {Batch: 2},
		} {
			t.Logf("%s, folded %t", name, folded)
			requirePages(t, h.PageTexts(t, f, 1000), map[string]int{"few finished": 2500, "window": 1500, "list": 1500, "": 100})
			w, err := h.Window(t.Context(), f, 1000)
			require.NoError(t, err)
			f.Window = w
			list, err := h.List(t.Context(), f)
			require.NoError(t, err)
			require.NotEmpty(t, list, "it begins at the batch's newest task")
			if f.Labels == nil && name != "the end" {
				require.Len(t, list, 50)
			}
		}
		require.Equal(t, []task.ID{50000, 49999, 49998}, page(store.TaskFilter{Batch: 1, Limit: 3}))
		require.Equal(t, []task.ID{20002, 20001}, page(store.TaskFilter{Batch: 1, Before: 20003}))
		require.Equal(t, []task.ID{50000, 45000, 40000, 35000, 30000, 25000}, page(store.TaskFilter{Batch: 1, Labels: map[string]string{"find": "me"}}))
		require.Equal(t, []task.ID{50001}, page(store.TaskFilter{Batch: 2, Before: 50002}))
	}
}

// How many pages a list of the audit touches does not depend on how much there is, nor on how much is about one task.
func TestAuditReadsFewEntries(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	h.exec(t, `
		INSERT INTO SCHEMA.audit (verb, task_id, answer) SELECT 'cancel', n, 'cancelled' FROM generate_series(1, 40000) AS n;
		INSERT INTO SCHEMA.audit (verb, task_id, batch_id, answer) SELECT 'retry', 7, 3, 'pending' FROM generate_series(1, 40000) AS n;
		INSERT INTO SCHEMA.audit (verb, type, answer) SELECT 'pause', 'a', 'paused' FROM generate_series(1, 40000) AS n`)
	for _, analysed := range []bool{false, true} {
		if analysed {
			h.exec(t, `ANALYZE SCHEMA.audit`)
		}
		for _, f := range []store.AuditFilter{
			{}, {Task: 5000}, {Task: 7}, {Batch: 3}, {Batch: 3, Task: 7}, {Task: 7, Before: 60000}, {Before: 30000}, {Task: 999999}, {Task: 7, Verb: "x"},
		} {
			requirePages(t, h.AuditTexts(t, f), map[string]int{"": 100})
		}
	}
	look, err := h.ListAudit(t.Context(), store.AuditFilter{Task: 7, Verb: "cancel", Look: 50000})
	require.NoError(t, err)
	require.Len(t, look.Entries, 1)
	require.Zero(t, look.From)
}
