package e2e_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/harness"
)

// How late after the commit of a batch's cancellation the last of its rows may start, which docs/batches.md promises.
const (
	lastStartPostgres = 50 * time.Millisecond
	lastStartSQLite   = 150 * time.Millisecond

	rowsOfBatch = 800
)

// slowTarget takes 2 ms for a request and, from one of them on, 20 ms: what an agent claimed ahead then takes it ten times as
// long. It notes when each came.
type slowTarget struct {
	mu   sync.Mutex
	came []time.Time
	slow int // from that request on
}

func (s *slowTarget) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	takes := 2 * time.Millisecond
	s.mu.Lock()
	s.came = append(s.came, time.Now())
	if len(s.came) > s.slow {
		takes = 20 * time.Millisecond
	}
	s.mu.Unlock()
	timer := time.NewTimer(takes)
	defer timer.Stop()
	<-timer.C
	w.WriteHeader(http.StatusNoContent)
}

// after is how many requests came after that time, and how long after it the last did.
func (s *slowTarget) after(at time.Time) (n int, last time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, came := range s.came {
		if late := came.Sub(at); late > 0 {
			n, last = n+1, max(last, late)
		}
	}
	return n, last
}

// slowAfter has it slow from its n-th request from now on.
func (s *slowTarget) slowAfter(n int) (before int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = len(s.came) + n
	return len(s.came)
}

func (s *slowTarget) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.came)
}

// open opens the store as an application would.
func (d *fakeTarget) open() *sql.DB {
	d.t.Helper()
	driver, source := "pgx", d.store
	if file, ok := strings.CutPrefix(d.store, "sqlite:"); ok {
		driver, source = "sqlite", "file:"+file+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, source)
	require.NoError(d.t, err)
	db.SetMaxOpenConns(1)
	d.t.Cleanup(func() { require.NoError(d.t, db.Close()) })
	return db
}

// schema is what stands before the name of a table.
func (d *fakeTarget) schema() string {
	if d.onSQLite() {
		return ""
	}
	return "leasehold."
}

// cancelBatch cancels a batch by SQL, and returns a time when that had committed.
func (d *fakeTarget) cancelBatch(db *sql.DB, id int64) time.Time {
	d.t.Helper()
	text := "SELECT leasehold.cancel_batch(%d)"
	if d.onSQLite() {
		text = "INSERT INTO cancel_batch (id) VALUES (%d)"
	}
	_, err := db.ExecContext(d.t.Context(), fmt.Sprintf(text, id))
	committed := time.Now()
	require.NoError(d.t, err)
	return committed
}

// TestNothingOfACancelledBatchStartsLater: an agent has always claimed some rows ahead of its slots. Those of a batch
// that is cancelled by plain SQL do not start: the agent learns of that within the bounds above, and releases them.
func TestNothingOfACancelledBatchStartsLater(t *testing.T) {
	onEachStoreAlone(t, func(t *testing.T, d *fakeTarget) {
		slow := &slowTarget{}
		server := httptest.NewServer(slow)
		t.Cleanup(server.Close)
		a := d.declare("agent", fmt.Sprintf("workers = 4\n  webhook {\n    url = %q\n  }", server.URL))
		db := d.open()
		bound := lastStartPostgres
		switch {
		case d.onSQLite():
			bound = lastStartSQLite
		case os.Getenv("LEASEHOLD_TEST_POOLER") != "": // no notifications arrive: a claimed row may wait for so long
			bound = task.StartWait
		}
		rows := filepath.Join(t.TempDir(), "rows.ndjson")
		require.NoError(t, os.WriteFile(rows, []byte(strings.Repeat("{}\n", rowsOfBatch)), 0o600))
		var lates []time.Duration
		for range 5 {
			before := slow.slowAfter(rowsOfBatch / 2)
			harness.MustRun(t, nil, "batch", "create", "--type", "work", "--from", rows, "--store", d.store)
			var id int64
			require.NoError(t, db.QueryRowContext(t.Context(), "SELECT max(id) FROM "+d.schema()+"batch").Scan(&id))
			harness.Until(t, workWithin, "some of it have run", func() bool { return slow.count() > before+rowsOfBatch/2 })
			committed := d.cancelBatch(db, id)
			var state string
			harness.Until(t, workWithin, "it has ended", func() bool {
				query := fmt.Sprintf("SELECT state FROM %sbatches WHERE id = %d", d.schema(), id)
				require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&state))
				return state != "running"
			})
			require.Equal(t, "cancelled", state, "and not before all was done")
			require.Less(t, slow.count()-before, rowsOfBatch)
			n, late := slow.after(committed)
			t.Logf("%d began after the commit, the last of them %s", n, late)
			lates = append(lates, late)
		}
		slices.Sort(lates)
		require.LessOrEqual(t, lates[len(lates)/2], bound, "in most of five, for the machine may be busy: %s", lates)
		a.Drain(t)
	})
}
