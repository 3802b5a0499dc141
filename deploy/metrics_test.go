package deploy_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/telemetry"
)

// names collects the names of all metrics that are registered, and their labels.
type names map[string][]string

func (n names) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc, 100)
	c.Describe(ch)
	close(ch)
	for d := range ch {
		m := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(d.String())
		n[m[1]] = strings.Split(m[2], ",")
	}
	return nil
}

func (n names) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = n.Register(c)
	}
}

func (names) Unregister(prometheus.Collector) bool { return false }

// metrics are all that an agent exports of its own, with their labels.
func metrics(t *testing.T) names {
	t.Helper()
	n := names{}
	telemetry.NewMetrics(n)
	n.MustRegister(telemetry.NewStoreCollector(nil, nil, nil, nil))
	require.Contains(t, n, "leasehold_store_oldest_due_seconds")
	require.Equal(t, []string{"type", "phase"}, n["leasehold_breaker_open"])
	return n
}

var (
	metricNamed = regexp.MustCompile(`leasehold_[a-z_]+`)
	histograms  = regexp.MustCompile(`_(bucket|sum|count)$`)
	grouped     = regexp.MustCompile(`by \(([^)]*)\)`)
	// What Prometheus adds to each series, and what quantiles are computed by.
	added = []string{"job", "instance", "namespace", "le"}
)

// known checks that the metrics of an expression exist, and have the labels by which it groups.
func (n names) known(t *testing.T, expr, where string) (found []string) {
	t.Helper()
	labels := slices.Clone(added)
	for _, name := range metricNamed.FindAllString(expr, -1) {
		if _, ok := n[name]; !ok {
			name = histograms.ReplaceAllString(name, "")
		}
		require.Contains(t, n, name, "%s: no such metric in %s", where, expr)
		labels = append(labels, n[name]...)
		found = append(found, name)
	}
	for _, m := range grouped.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(m[1], ",") {
			require.Contains(t, labels, strings.TrimSpace(label), "%s: %s", where, expr)
		}
	}
	return found
}

type alerts struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func TestAlerts(t *testing.T) {
	n := metrics(t)
	rules := documents[alerts](t, "prometheus/alerts.yaml")[0].Groups[0].Rules
	tests := text(t, "prometheus/alerts_test.yaml")
	used := map[string]bool{}
	for _, r := range rules {
		for _, name := range n.known(t, r.Expr, r.Alert) {
			used[name] = true
		}
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		fires := regexp.MustCompile(`alertname: ` + r.Alert + `\b[^\n]*\n\s+eval_time: \w+\n\s+exp_alerts:`)
		require.Regexp(t, fires, tests, "a test in which %s fires", r.Alert)
		require.Contains(t, tests, "{ alertname: "+r.Alert+",", "a test in which %s does not fire", r.Alert)
	}
	for _, name := range []string{
		"leasehold_stalls_total", "leasehold_store_orphans", "leasehold_rollbacks_failed_total", "leasehold_store_oldest_due_seconds",
		"leasehold_breaker_open", "leasehold_store_schedules_parked", "leasehold_store_sequences_blocked", "leasehold_store_agents_present",
	} {
		require.True(t, used[name], name)
	}
	require.Contains(t, text(t, "prometheus/alerts.yaml"), "absent(leasehold_store_agents_present)")
}

type dashboard struct {
	UID    string
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, RefID string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

func TestDashboard(t *testing.T) {
	n := metrics(t)
	var d dashboard
	require.NoError(t, json.Unmarshal([]byte(text(t, "grafana/dashboard.json")), &d))
	variables := []string{"__rate_interval", "__range"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		n.known(t, v.Definition, v.Name)
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.NotEmpty(t, n.known(t, target.Expr, p.Title), p.Title)
			for _, m := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				require.Contains(t, variables, m[1], p.Title)
			}
		}
	}
}

// What docs/operations.md lists is what there is.
func TestMetricsAreDocumented(t *testing.T) {
	n := metrics(t)
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(leasehold_[a-z_]+)` \\|").FindAllStringSubmatch(text(t, "../docs/operations.md"), -1) {
		require.Contains(t, n, m[1])
		documented[m[1]] = true
	}
	for name := range n {
		require.True(t, documented[name], name)
	}
}
