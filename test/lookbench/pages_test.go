//go:build bench

package lookbench_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/activity"
	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/web"
)

const agents = 10 // that have written an activity of two days, of twenty types each

// shown is what a dashboard shows.
type shown interface {
	ops.Everything
	batch.BulkStore
}

// pages are the dashboard's, with the filters that find little among much.
func pages(n int) []string {
	return []string{
		"/", "/?span=48h", "/tasks", "/tasks?state=failed", "/tasks?type=rare", "/tasks?type=none", "/tasks?label=find%3Dme", "/tasks?key=again",
		fmt.Sprintf("/tasks?before=%d", n/2), fmt.Sprintf("/tasks/%d", n), fmt.Sprintf("/tasks/%d", n+31), fmt.Sprintf("/tasks/%d", n+n/20),
		"/batches", "/batches/1", "/chunks", "/schedules", "/flow", "/failures", "/types", "/types/bulk", "/types/bulk?span=48h", "/agents",
		"/tasks/change?verb=retry&type=bulk&state=failed", "/doctor",
	}
}

// measurePages prints the median of each page. Each time a dashboard that has read nothing yet is asked, so that nothing is shared: what is shown
// for the overview has the doctor's examination in it, which is repeated every ten seconds.
func measurePages(t *testing.T, s shown, n int) {
	t.Helper()
	for _, path := range pages(n) {
		var took []time.Duration
		var size int
		for range runs {
			d := web.New(web.Options{Store: s, Bulk: batch.NewBulk(s, ops.NamedSignature), Log: slog.New(slog.DiscardHandler), Agent: "bench",
				Checkups: ops.NewCheckups(s), Histories: &ops.Histories{}})
			w := httptest.NewRecorder()
			began := time.Now()
			d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			took = append(took, time.Since(began))
			require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
			size = w.Body.Len()
		}
		slices.Sort(took)
		t.Logf("| page %s | %.1f | %d bytes", path, float64(took[len(took)/2].Microseconds())/1000, size)
	}
}

// active has agents write what they have done in two days.
func active(t *testing.T, s activity.Store) {
	t.Helper()
	for agent := range agents {
		var rows []store.ActivityRow
		for _, step := range []struct {
			of store.ActivityStep
			n  int
		}{{store.ActivityMinute, 119}, {store.ActivityHour, 47}} {
			last := step.of.Of(time.Now())
			for i := range step.n {
				for typ := range 20 {
					name := fmt.Sprintf("type%d", typ)
					if typ == 0 {
						name = "bulk"
					}
					row := store.ActivityRow{Step: step.of, At: last.Add(-time.Duration(i) * step.of.Length()), Type: name}
					row.Outcomes[0], row.Outcomes[1], row.Latency[3], row.Latency[7] = int64(i*typ), int64(typ), int64(i), int64(i*typ)
					rows = append(rows, row)
				}
			}
		}
		for part := range slices.Chunk(rows, 500) {
			_, err := s.KeepActivity(t.Context(), task.Session(agent+1), part)
			require.NoError(t, err)
		}
	}
}
