package report

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func book(rates map[string][]float64) *Book {
	b := NewBook()
	for _, contender := range []string{"leasehold", "river held"} {
		for _, rate := range rates[contender] {
			b.Add("noop", contender, map[string]float64{"rate": rate})
		}
	}
	return b
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		median float64
	}{
		{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 100}, 3.5},
	} {
		require.InDelta(t, c.median, median(c.values), 1e-9)
	}
	require.True(t, math.IsNaN(median(nil)))
}

// TestRatiosAreOfRounds: the machine was half as fast in the second round, which changes no ratio.
func TestRatiosAreOfRounds(t *testing.T) {
	b := book(map[string][]float64{"leasehold": {300, 150, 330}, "river held": {100, 50}})
	require.Equal(t, []float64{3, 3}, b.Ratios(Key{"noop", "leasehold", "rate"}, Key{"noop", "river held", "rate"}))
}

// A target of the better of two goes by the higher value of each round.
func TestTheBetterOfTwo(t *testing.T) {
	target := Target{Of: "noop/leasehold/rate", Or: "noop/river held/rate"}
	require.Equal(t, []float64{300, 200}, target.values(book(map[string][]float64{"leasehold": {300, 150}, "river held": {100, 200}})))
	require.Equal(t, []float64{300}, target.values(book(map[string][]float64{"leasehold": {300}})))
	require.Equal(t, []float64{100}, target.values(book(map[string][]float64{"river held": {100}})))
	require.Empty(t, target.values(NewBook()))
	target.Over = target.Or
	require.Equal(t, []float64{3, 1}, target.values(book(map[string][]float64{"leasehold": {300, 150}, "river held": {100, 200}})))
}

func TestCheck(t *testing.T) {
	least, most := 3.0, 100.0
	b := book(map[string][]float64{"leasehold": {300, 290, 310}, "river held": {100, 100, 100}})
	ratio := Target{Name: "ratio", Of: "noop/leasehold/rate", Over: "noop/river held/rate", Least: &least}
	for _, c := range []struct {
		name    string
		target  Target
		reached bool
	}{
		{"a ratio that is just so", ratio, true},
		{"a value too large", Target{Name: "x", Of: "noop/leasehold/rate", Most: &most}, false},
		{"a value just so", Target{Name: "x", Of: "noop/river held/rate", Most: &most}, true},
		{"what was not measured though its scenario was", Target{Name: "x", Of: "noop/graphile/rate", Least: &least}, false},
		{"what was not measured at all", Target{Name: "x", Of: "http/leasehold/rate", Least: &least}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, reached := Check(b, []Target{c.target})
			require.Equal(t, c.reached, reached, text)
		})
	}
	text, reached := Check(b, []Target{ratio, {Name: "low", Of: "noop/leasehold/rate", Most: &most}})
	require.False(t, reached, "one of two is missed")
	require.Regexp(t, `ratio +>= 3\.00 +3\.00 \(2\.90–3\.10\) +reached\n`, text)
	require.Regexp(t, `low +<= 100 +300 \(290–310\) +MISSED\n`, text)
}

// TestTargets reads the targets that there are.
func TestTargets(t *testing.T) {
	targets, err := ReadTargets("../targets.json")
	require.NoError(t, err)
	require.NotEmpty(t, targets)
	for _, bad := range []string{
		`[{"name": "x", "of": "noop/leasehold", "least": 1}]`, `[{"name": "x", "of": "noop/leasehold/rate"}]`,
		`[{"name": "x", "of": "noop/leasehold/rate", "over": "noop", "least": 1}]`,
		`[{"name": "x", "of": "noop/leasehold/rate", "or": "noop", "least": 1}]`, `[{"name": "x", "or": "noop/leasehold/rate", "least": 1}]`, `[{"nam": "x"}]`, `{`,
	} {
		path := filepath.Join(t.TempDir(), "targets.json")
		require.NoError(t, os.WriteFile(path, []byte(bad), 0o600))
		_, err := ReadTargets(path)
		require.ErrorContains(t, err, path, bad)
	}
}

func TestNumber(t *testing.T) {
	for v, text := range map[float64]string{
		0: "0.000", 0.00012: "0.00012", 0.0123: "0.012", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 87654: "87654", 2.5e8: "250M",
		-3.21: "-3.21",
	} {
		require.Equal(t, text, Number(v))
	}
	require.Equal(t, "–", Number(math.NaN()))
}

// TestParse reads back what is printed, with the medians for values, and nothing of what stands around it.
func TestParse(t *testing.T) {
	b := NewBook()
	for _, round := range []float64{1, 2, 3} {
		b.Add("insert", "busy on", map[string]float64{"inserts_per_second": 4000 * round, "seconds": 1.5})
		b.Add("insert", "busy off", map[string]float64{"inserts_per_second": 5000 * round})
		b.Add("flat-latency", "empty", map[string]float64{"p50_ms": round / 2, "agent_cpu_percent": 0})
	}
	verdict, _ := Check(b, nil)
	back := Parse("\nPostgreSQL 15, 2 cores; 3 rounds\n" + b.String() + "\n" + verdict)
	require.ElementsMatch(t, b.Scenarios(), back.Scenarios())
	for _, k := range b.order {
		require.Equal(t, []float64{b.Median(k)}, back.Values(k), k)
	}
	require.Empty(t, back.Values(Key{"insert", "busy off", "seconds"}))
	require.Empty(t, Parse("no tables").Scenarios())
}

func TestCompare(t *testing.T) {
	of := func(rate, p50, statements float64) *Book {
		b := NewBook()
		b.Add("noop", "leasehold", map[string]float64{"rate": rate, "rss_mb": 30 / rate})
		b.Add("latency", "leasehold", map[string]float64{"p50_ms": p50})
		b.Add("idle", "leasehold", map[string]float64{"statements_per_second": statements})
		return b
	}
	before := of(100, 1, 4)
	for _, c := range []struct {
		name string
		now  *Book
		held bool
	}{
		{"the same", of(100, 1, 4), true},
		{"just so", of(95, 1, 4), true},
		{"a lower rate", of(94, 1, 4), false},
		{"a longer wait", of(200, 1.06, 4), false},
		{"more statements", of(100, 1, 5), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, held := Compare(c.now, before)
			require.Equal(t, c.held, held, text)
			require.NotContains(t, text, "rss_mb", "memory is not judged")
		})
	}
	text, held := Compare(of(80, 2, 4), before)
	require.False(t, held)
	require.Regexp(t, `noop +leasehold +rate +100 +80\.0 +0\.800 +BELOW 0\.95\n`, text)
	require.Regexp(t, `latency +leasehold +p50_ms +1\.00 +2\.00 +0\.500 +BELOW 0\.95\n`, text)

	// Processor time is that of the agent, its children and the server together.
	cpu := func(agent, child, server float64) *Book {
		b := NewBook()
		b.Add("exec", "leasehold", map[string]float64{
			"rate": 100, "agent_cpu_us_per_row": agent, "child_cpu_us_per_row": child, "server_cpu_us_per_row": server,
		})
		return b
	}
	text, held = Compare(cpu(10, 100, 40), cpu(20, 100, 30))
	require.True(t, held, text)
	require.Regexp(t, `exec +leasehold +cpu_us_per_row +150 +150 +1\.00`, text)
	text, held = Compare(cpu(10, 110, 40), cpu(20, 100, 30))
	require.False(t, held, text)

	rounds := of(100, 1, 4)
	rounds.Merge(of(90, 1, 4))
	rounds.Merge(of(99, 1, 4))
	earlier := of(100, 1, 4)
	earlier.Merge(of(100, 1, 4))
	earlier.Merge(of(100, 1, 4))
	_, held = Compare(rounds, earlier)
	require.True(t, held, "one bad round of three decides nothing")
}

// TestRecord replaces what stands between the marks, and nothing else.
func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "performance.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+from+"old\n"+to+"after\n"), 0o600))
	least := 3.0
	b := book(map[string][]float64{"leasehold": {300}, "river held": {100}})
	targets := []Target{{Name: "over River", Of: "noop/leasehold/rate", Over: "noop/river held/rate", Least: &least}}
	for range 2 {
		require.NoError(t, Record(path, Markdown("2 cores", b, targets)))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "before\n"+from+`
2 cores.

| target | wanted | median (spread) | verdict |
| --- | --- | --- | --- |
| over River | >= 3.00 | 3.00 | reached |

| noop | leasehold | river held |
| --- | --- | --- |
| rate | 300 | 100 |

`+to+"after\n", string(text))
	require.NoError(t, os.WriteFile(path, []byte("no marks\n"), 0o600))
	require.ErrorContains(t, Record(path, "x"), path)
}
