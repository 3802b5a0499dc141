package postgres_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// A look of a bulk change touches about as many pages as it returns rows, however many there are that it is not for.
func TestBulkLooksReadFewRows(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	_, err := h.Maintain(t.Context(), week) // for the partitions
	require.NoError(t, err)
	h.exec(t, `
		INSERT INTO SCHEMA.task_archive (id, run_at, created_at, finished_at, fence, attempt, deferrals, priority, ever_started, state, type, payload)
		SELECT n, d.run_at, d.created_at, d.finished_at, 2, 1, 0, 0, true, CASE WHEN n % 1000 = 0 THEN 'failed' ELSE 'succeeded' END,
			CASE WHEN n % 500 = 0 THEN 'rare' ELSE 'common' END, '{}'
		FROM generate_series(1, 60000) AS n, (SELECT now() AS run_at, now() AS created_at, now() AS finished_at) AS d`)
	h.exec(t, `INSERT INTO SCHEMA.task (type, run_at) SELECT 'common', now() + interval '1 hour' FROM generate_series(1, 20000)`)
	looks := map[string]store.BulkLook{
		"what failed":      {Finished: true, Errors: true, Labels: true},
		"all of a type":    {Finished: true, Succeeded: true, Type: "rare"},
		"all that waits":   {Live: true, Labels: true},
		"all":              {Finished: true, Live: true, Succeeded: true},
		"from the middle":  {Finished: true, After: 30000},
		"from the middle.": {Live: true, Finished: true, Succeeded: true, After: 30000},
	}
	const limit, most = 100, 600 // rows, and pages: an index leads to each row
	conn := planner(t, settings["ours"])
	for _, analysed := range []bool{false, true} {
		if analysed {
			h.exec(t, `ANALYZE SCHEMA.task; ANALYZE SCHEMA.task_archive`)
		}
		for name, l := range looks {
			for _, l.Newest = range []bool{false, true} {
				l.UpTo, l.Limit = 100000, limit
				text := h.LookBulkText(t, &l)
				require.Equal(t, l.Newest, strings.Contains(text, "id DESC LIMIT"))
				n := pages(t, conn, text, most-1)
				t.Logf("%s, newest first %t, analysed %t: %d pages", name, l.Newest, analysed, n)
				// Before that the planner may take the index that has the rows that succeeded, too.
				if analysed {
					require.Less(t, n, most, name)
				}
			}
		}
	}
}
