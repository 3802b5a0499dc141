package check

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const everything = `
monitoring: {enabled: true, dashboard: true, labels: {release: prometheus}}
keda: {enabled: true, types: [invoice.send, "it's"]}
sidecar:
  enabled: true
  containers: [{name: application, image: shop, ports: [{containerPort: 8080}]}]
  volumes: [{name: data, emptyDir: {}}]
image: {digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
imagePullSecrets: [{name: registry}]
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: batch, operator: Exists}]
affinity: {podAntiAffinity: {}}
podAnnotations: {team: billing}
migrate: {grants: {agents: [leasehold_agent], applications: [shop, 'the "other"'], operators: [on call]}}
`

// kinds renders the chart, checks each object against its schema, and returns them by kind and name.
func kinds(t *testing.T, s *schemas, values string) map[string]map[string]any {
	t.Helper()
	text, err := render(t, values)
	require.NoError(t, err)
	all := map[string]map[string]any{}
	for _, o := range objects(t, text) {
		s.check(t, o)
		name := o["kind"].(string) + " " + o["metadata"].(map[string]any)["name"].(string)
		require.NotContains(t, all, name)
		all[name] = o
	}
	return all
}

func names(all map[string]map[string]any) (names []string) {
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestChart(t *testing.T) {
	var s schemas
	plainly := kinds(t, &s, "")
	require.Equal(t, []string{
		"ConfigMap shop-leasehold", "Deployment shop-leasehold", "Deployment shop-leasehold-observer", "Job shop-leasehold-migrate",
		"NetworkPolicy shop-leasehold", "Service shop-leasehold",
	}, names(plainly))
	require.EqualValues(t, 2, at(plainly["Deployment shop-leasehold"], "spec", "replicas"))
	require.Equal(t, "0", at(plainly["Deployment shop-leasehold-observer"], "spec", "template", "spec", "containers", 0, "env", 0, "value"))

	all := kinds(t, &s, everything)
	require.Equal(t, []string{
		"ConfigMap shop-leasehold", "ConfigMap shop-leasehold-dashboard", "Deployment shop-leasehold", "Deployment shop-leasehold-application",
		"Deployment shop-leasehold-observer", "Job shop-leasehold-migrate", "NetworkPolicy shop-leasehold", "PrometheusRule shop-leasehold",
		"ScaledObject shop-leasehold", "Service shop-leasehold", "ServiceMonitor shop-leasehold",
	}, names(all))
	agents := all["Deployment shop-leasehold"]
	require.Nil(t, at(agents, "spec", "replicas"), "KEDA sets it")
	require.True(t, strings.HasPrefix(at(agents, "spec", "template", "spec", "containers", 0, "image").(string), "leasehold@sha256:"))
	sidecar := all["Deployment shop-leasehold-application"]
	require.Equal(t, "Always", at(sidecar, "spec", "template", "spec", "initContainers", 0, "restartPolicy"))
	require.Equal(t, "SELECT leasehold.backlog('invoice.send') + leasehold.backlog('it''s')",
		at(all["ScaledObject shop-leasehold"], "spec", "triggers", 0, "metadata", "query"))
	for _, o := range []map[string]any{agents, all["Deployment shop-leasehold-observer"], sidecar, all["Job shop-leasehold-migrate"]} {
		require.Equal(t, true, at(o, "spec", "template", "spec", "securityContext", "runAsNonRoot"))
		require.Equal(t, "RuntimeDefault", at(o, "spec", "template", "spec", "securityContext", "seccompProfile", "type"))
		require.Equal(t, false, at(o, "spec", "template", "spec", "automountServiceAccountToken"))
	}
	for _, o := range []map[string]any{agents, all["Deployment shop-leasehold-observer"]} {
		c := at(o, "spec", "template", "spec", "containers", 0).(map[string]any)
		require.Equal(t, "/-/ready", at(c, "readinessProbe", "httpGet", "path"))
		require.Equal(t, "/-/healthy", at(c, "livenessProbe", "httpGet", "path"))
		require.Equal(t, true, at(c, "securityContext", "readOnlyRootFilesystem"))
	}

	require.Equal(t, []any{"migrate", "up"}, migration(plainly), "nothing is granted where no role is named")
	require.Equal(t, []any{
		"migrate", "up", "--grant-agent=leasehold_agent", "--grant-application=shop", "--grant-application=the \"other\"", "--grant-operator=on call",
	}, migration(all))

	fewest := kinds(t, &s, "{migrate: {enabled: false}, agents: {enabled: false}, observer: {enabled: false}, networkPolicy: {enabled: false}, keda: {enabled: true}}")
	require.Equal(t, []string{"ConfigMap shop-leasehold", "Service shop-leasehold"}, names(fewest))
}

// migration are the arguments of the Job.
func migration(all map[string]map[string]any) any {
	return at(all["Job shop-leasehold-migrate"], "spec", "template", "spec", "containers", 0, "args")
}

// The chart's rules are those of prometheus/alerts.yaml, but for the one that would otherwise not fire while another installation is up.
func TestChartHasTheAlerts(t *testing.T) {
	var s schemas
	var want map[string]any
	text, err := os.ReadFile("../prometheus/alerts.yaml")
	require.NoError(t, err)
	here := strings.ReplaceAll(string(text), "absent(leasehold_store_agents_present)",
		`absent(leasehold_store_agents_present{namespace="production", job="shop-leasehold"})`)
	require.NotEqual(t, string(text), here)
	require.NoError(t, yaml.Unmarshal([]byte(here), &want))
	require.Equal(t, want, kinds(t, &s, everything)["PrometheusRule shop-leasehold"]["spec"])
}

func TestChartRefuses(t *testing.T) {
	for values, why := range map[string]string{
		"secret: ''":                       "secret names the Secret",
		"migrate: {secret: ''}":            "migrate.secret names the Secret",
		"sidecar: {enabled: true}":         "sidecar.containers lists",
		"keda: {enabled: true, types: []}": "keda.types names",
	} {
		_, err := render(t, values)
		require.ErrorContains(t, err, why)
	}
}

// at walks into an object; nil where there is nothing.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}
