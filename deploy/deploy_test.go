// Package deploy_test keeps what stands in this folder true: it is read by systemd, Docker, Kubernetes, Prometheus and Grafana, which no test
// of ours runs. test/deploy checks what takes their own tools and schemas.
package deploy_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/internal/config"
)

var update = flag.Bool("update", false, "write the copies of files anew")

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(b)
}

// documents reads all documents of a YAML file. A key that stands there twice is an error.
func documents[T any](t *testing.T, file string) (all []T) {
	t.Helper()
	for dec := yaml.NewDecoder(bytes.NewReader([]byte(text(t, file)))); ; {
		var doc T
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, file)
		all = append(all, doc)
	}
}

// load loads a configuration in an environment of just these variables, and sees that it needs no others.
func load(t *testing.T, text string, env map[string]string) *config.Config {
	t.Helper()
	for _, m := range regexp.MustCompile(`env\("([^"]+)"\)`).FindAllStringSubmatch(text, -1) {
		require.Contains(t, env, m[1], "what the configuration reads is set")
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	file := filepath.Join(t.TempDir(), "leasehold.hcl")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	cfg, err := config.Load([]string{file}, config.Options{})
	require.NoError(t, err)
	return cfg
}

// A listener that others are to reach says how: what it listens on is no address of anything.
func reachable(t *testing.T, cfg *config.Config, host string) {
	t.Helper()
	require.Equal(t, "0.0.0.0:7070", cfg.Agent.Listen)
	require.Equal(t, "http://"+host+":7070", cfg.Agent.Advertise)
	require.NotEmpty(t, cfg.Tasks)
}

// What stands in two places is the same in both.
func TestCopies(t *testing.T) {
	alerts := text(t, "prometheus/alerts.yaml")
	rules := regexp.MustCompile(`(?m)^groups:\n(?:.*\n)*`).FindString(alerts)
	monitoring := text(t, "kubernetes/monitoring.yaml")
	before, _, found := cut(monitoring, "\nspec:\n", 2)
	require.True(t, found)
	for file, want := range map[string]string{
		"helm/leasehold/files/alerts.yaml":    alerts,
		"helm/leasehold/files/dashboard.json": text(t, "grafana/dashboard.json"),
		"kubernetes/monitoring.yaml":          before + regexp.MustCompile(`(?m)^(.+)$`).ReplaceAllString(rules, "  $1"),
	} {
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		}
		require.Equal(t, want, text(t, file), "go test ./deploy -update writes %s anew", file)
	}
}

// TestVersions: the chart and the manifests run the release that the chart is for, and the changelog ends with no later one. `make release` sees that
// the tag agrees.
func TestVersions(t *testing.T) {
	chart := documents[struct {
		Version    string
		AppVersion string `yaml:"appVersion"`
	}](t, "helm/leasehold/Chart.yaml")[0]
	require.Equal(t, chart.Version, chart.AppVersion)
	for _, file := range []string{"kubernetes/standalone.yaml", "kubernetes/sidecar.yaml"} {
		images := regexp.MustCompile(`(?m)image: (leasehold\b.*)$`).FindAllStringSubmatch(text(t, file), -1)
		require.NotEmpty(t, images)
		for _, m := range images {
			require.Equal(t, "leasehold:"+chart.AppVersion, m[1], file)
		}
	}
	if m := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`).FindStringSubmatch(text(t, "../CHANGELOG.md")); m != nil {
		require.Equal(t, m[1], chart.AppVersion, "the newest release in CHANGELOG.md: see docs/releasing.md")
	}
}

// TestGracePeriods: each supervisor gives an agent the same time to drain, which is more than it takes with the defaults.
func TestGracePeriods(t *testing.T) {
	const grace = "60"
	cfg := load(t, `task "hello" {
	webhook { url = "http://127.0.0.1:1/" }
}`, nil)
	takes := cfg.Agent.Drain + 5*time.Second + 2*time.Second + 15*time.Second // stop_grace and cancel_grace, the kill, the last settlements
	page := text(t, "../docs/operations.md")
	require.Contains(t, page, fmt.Sprintf("%.0f s with the defaults", takes.Seconds()))
	seconds, err := strconv.Atoi(grace)
	require.NoError(t, err)
	require.Greater(t, float64(seconds), takes.Seconds()+10, "a reserve")
	require.Contains(t, page, "give it "+grace+" s")
	setting := regexp.MustCompile(`(?:TimeoutStopSec=|terminationGracePeriodSeconds: |stop_grace_period: |--stop-timeout |docker stop --time )(\d+)`)
	for file, n := range map[string]int{
		"Dockerfile": 2, "compose.yaml": 1, "leasehold.service": 1, "kubernetes/standalone.yaml": 2, "helm/leasehold/values.yaml": 1,
		"../docs/operations.md": 5, "../docs/deployment.md": 1, "../docs/guides/deploys.md": 4,
	} {
		found := setting.FindAllStringSubmatch(text(t, file), -1)
		require.Len(t, found, n, file)
		for _, m := range found {
			require.Equal(t, grace, m[1], "%s: %s", file, m[0])
		}
	}
}

// cut cuts behind the nth occurrence of sep, which stays in the first part.
func cut(s, sep string, n int) (before, after string, found bool) {
	at := 0
	for range n {
		i := strings.Index(s[at:], sep)
		if i < 0 {
			return s, "", false
		}
		at += i + len(sep)
	}
	return s[:at], s[at:], true
}
