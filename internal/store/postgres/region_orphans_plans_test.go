package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// How many pages a look for rows of regions without an agent touches does not depend on how many rows there are.
func TestRegionOrphansReadFewRows(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	const most = 100
	text := strings.NewReplacer("$1", fmt.Sprint(most), "$2", fmt.Sprint(most), "$3", fmt.Sprint(most)).Replace(h.Statements()["region_orphans"])
	few := func(most int) {
		t.Helper()
		for how, set := range settings {
			n := pages(t, planner(t, set), text, most-1)
			t.Logf("%s: %d pages", how, n)
			require.Less(t, n, most, how)
		}
	}
	insert := func(n int, typ, columns, values string) {
		h.exec(t, `INSERT INTO SCHEMA.task (type, `+columns+`) SELECT `+typ+`, `+values+` FROM generate_series(1, `+fmt.Sprint(n)+`) AS n`)
	}
	insert(2000, `'type' || n % 20`, "run_at", "now()")
	few(20) // there is nothing in the index

	insert(store.RegionLooked+1, `'type1'`, "region, run_at", "'sg', now()")
	insert(2500, `'type2'`, "region, run_at", "'sg', now() + interval '1 day'")
	insert(2500, `'type3'`, "region, tenant, run_at", "'sg', 'tenant' || n % 1000, now() + interval '1 day'")
	insert(2000, `'type' || n % 20`, "tenant", "'tenant' || n % 1000")
	for _, analysed := range []bool{false, true} {
		if analysed {
			h.exec(t, `ANALYZE SCHEMA.task`)
		}
		few(100 + 3*most)
	}
	list, err := h.RegionOrphans(t.Context())
	require.NoError(t, err)
	require.Equal(t, []store.RegionOrphan{{Region: "sg", Type: "type1", Due: store.RegionLooked, More: true}}, list)
}
