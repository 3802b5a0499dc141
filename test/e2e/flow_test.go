package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestSmallTenantsBesideABigOne: 99 of 100 rows of small tenants start within twice as many starts as there are of small ones, however many
// rows a big tenant has; at the full size within twice the time that they take alone.
func TestSmallTenantsBesideABigOne(t *testing.T) {
	small, each, big := harness.Sized(99, 999), 10, harness.Sized(4_000, 1_000_000)
	rows := small * each
	run := func(beside int) (starts, took float64) {
		h := newHouse(t, beside+rows)
		h.insert(beside, fmt.Sprintf(`INSERT INTO leasehold.task (type, tenant) SELECT 'work', 'big' FROM generate_series(1, %d)`, beside))
		h.insert(rows, fmt.Sprintf(`INSERT INTO leasehold.task (type, tenant) SELECT 'work', 'small' || n / %d FROM generate_series(0, %d) AS n`,
			each, rows-1))
		began := time.Now()
		h.agent("agent", 16, "", "")
		most := rows * 99 / 100
		harness.Until(t, workWithin, "nearly all rows of small tenants have started", func() bool {
			h.endpoint.mu.Lock()
			defer h.endpoint.mu.Unlock()
			n := 0
			for i, id := range h.endpoint.order {
				if id > int64(beside) {
					n++
				}
				if n == most {
					starts, took = float64(i+1), time.Since(began).Seconds()
					return true
				}
			}
			return false
		})
		return starts, took
	}
	_, alone := run(0)
	starts, beside := run(big)
	t.Logf("99 of 100 rows of %d small tenants: %.2f s, alone %.2f s; %.0f starts", small, beside, alone, starts)
	require.LessOrEqual(t, starts, float64(2*rows))
	if full() {
		require.LessOrEqual(t, beside, 2*alone)
	}
}

// TestRenewalsBesideManyThatWait: while very many rows wait for one, and one for very many, leases are renewed as ever.
func TestRenewalsBesideManyThatWait(t *testing.T) {
	const long = 20
	many := harness.Sized(1_500, 100_000)
	h := newHouse(t, long+many+3)
	listen := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
	harness.StartAgent(t, harness.AgentOptions{
		Name: "agent", Store: h.url, Listen: listen, Agent: "  workers = 40",
		Config: fmt.Sprintf("task \"work\" {\n  webhook {\n    url = %q\n  }\n}\n"+
			"task \"long\" {\n  timeout = \"1h\"\n  heartbeat = \"2s\"\n  command {\n    argv = [\"sh\", \"-c\", \"n=0; while sleep 0.5; do n=$((n+1)); echo $n >&3; done\"]\n  }\n}", h.endpoint.url),
	})
	h.insert(long, fmt.Sprintf(`INSERT INTO leasehold.task (type) SELECT 'long' FROM generate_series(1, %d)`, long))
	harness.Until(t, workWithin, "they run", func() bool {
		return h.number(`SELECT count(*) FROM leasehold.task WHERE state = 'running'`) == long
	})
	renewed := func(before int) (all, quick int) {
		harness.Until(t, workWithin, "leases are renewed", func() bool { all, quick = renewals(t, listen, "1.024"); return all > before })
		return all, quick
	}
	before, _ := renewed(0)
	h.insert(1, fmt.Sprintf(`WITH first AS (
		INSERT INTO leasehold.task (type) VALUES ('work') RETURNING id
	), each AS (
		INSERT INTO leasehold.task (type, after) SELECT 'work', ARRAY[f.id] FROM first AS f, generate_series(1, %d) RETURNING id
	) INSERT INTO leasehold.task (type, after) SELECT 'work', array_agg(e.id ORDER BY e.id) FROM each AS e`, many))
	harness.Until(t, workWithin, "the last has ended", func() bool {
		return h.number(`SELECT count(*) FROM (SELECT FROM leasehold.task WHERE type = 'work' LIMIT 1) AS any_task`) == 0
	})
	all, quick := renewed(before)
	require.EqualValues(t, many+2, h.endpoint.total.Load())
	require.Equal(t, all, quick, "calls that renew")
	t.Logf("%d calls renewed leases meanwhile", all-before)
	require.EqualValues(t, long, h.number(`SELECT count(*) FROM leasehold.task WHERE state = 'running' AND fence = 1`), "none has lost its lease")
}

// renewals returns how many calls to the store have renewed leases, and how many of these took no longer than so many seconds.
func renewals(t *testing.T, listen, within string) (all, quick int) {
	t.Helper()
	resp, err := (&http.Client{Timeout: sqlWithin}).Get("http://" + listen + "/metrics") //nolint:noctx // it has a time limit
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	read := func(name string) int {
		found := regexp.MustCompile(`(?m)^leasehold_store_duration_seconds_` + name + ` (\d+)$`).FindSubmatch(text)
		if found == nil {
			return 0
		}
		n, err := strconv.Atoi(string(found[1]))
		require.NoError(t, err)
		return n
	}
	return read(`count\{op="renew"\}`), read(`bucket\{op="renew",le="` + regexp.QuoteMeta(within) + `"\}`)
}
