package deploy_test

import (
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type compose struct {
	Services map[string]struct {
		Image string
		Build *struct{ Context, Dockerfile, Target string }

		Command     []string
		Environment map[string]string
		Volumes     []string
		Ports       []string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Deploy      struct{ Replicas int }
	}
	Volumes map[string]any
}

// pinned is an image of a registry with its version and digest.
var pinned = regexp.MustCompile(`^[a-z./]+:[0-9v][0-9a-z.-]+@sha256:[0-9a-f]{64}$`)

// It runs as it stands: each file that it mounts, each service and each variable that it names is there.
func TestCompose(t *testing.T) {
	all := documents[compose](t, "compose.yaml")
	require.Len(t, all, 1)
	services := all[0].Services
	mounted := map[string]string{}
	ports := map[string]bool{}
	for name, s := range services {
		if s.Build == nil {
			require.Regexp(t, pinned, s.Image, name)
		} else {
			require.FileExists(t, filepath.Join(s.Build.Context, s.Build.Dockerfile))
			if s.Build.Target != "" {
				require.Contains(t, text(t, "Dockerfile"), " AS "+s.Build.Target+"\n")
			}
		}
		for _, v := range s.Volumes {
			from, to, _ := strings.Cut(v, ":")
			if !strings.HasPrefix(from, ".") {
				require.Contains(t, all[0].Volumes, from, name)
				continue
			}
			if filepath.Ext(from) == "" {
				require.DirExists(t, from, "%s mounts it", name)
			} else {
				require.FileExists(t, from, "%s mounts it", name)
			}
			require.True(t, strings.HasSuffix(to, ":ro"), "%s changes no file of the repository", name)
			mounted[strings.TrimSuffix(to, ":ro")] = from
		}
		for other, on := range s.DependsOn {
			require.Contains(t, services, other)
			if on.Condition == "service_completed_successfully" {
				require.Equal(t, "migrate", other, "it ends")
			}
		}
		for _, p := range s.Ports {
			require.True(t, strings.HasPrefix(p, "127.0.0.1:"), "%s is of this host only: passwords stand in the file", name)
			require.False(t, ports[p], p)
			ports[p] = true
		}
	}
	for _, name := range []string{"agent", "observer", "application", "prometheus", "grafana"} {
		require.NotEmpty(t, services[name].Ports, name)
	}
	migrates(t, services["migrate"].Command, roleOf(t, services["migrate"].Environment), map[string]string{
		"--grant-agent": roleOf(t, services["agent"].Environment), "--grant-application": roleOf(t, services["application"].Environment),
	})
	for _, name := range []string{"migrate", "agent", "observer", "application"} {
		require.Contains(t, text(t, "compose/roles.sql"), "CREATE ROLE "+roleOf(t, services[name].Environment)+" LOGIN")
	}
	agent := services["agent"]
	require.Equal(t, 2, agent.Deploy.Replicas)
	low, high, ranged := strings.Cut(strings.Split(agent.Ports[0], ":")[1], "-")
	require.True(t, ranged)
	first, err := strconv.Atoi(low)
	require.NoError(t, err)
	last, err := strconv.Atoi(high)
	require.NoError(t, err)
	require.Equal(t, agent.Deploy.Replicas, last-first+1, "a port for each replica")

	hcl := text(t, mounted["/etc/leasehold/leasehold.hcl"])
	for name, workers := range map[string]int{"agent": 32, "observer": 0} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"HOSTNAME": "0123456789ab"} // which Docker sets
			maps.Copy(env, services[name].Environment)
			cfg := load(t, hcl, env)
			reachable(t, cfg, "0123456789ab")
			require.Equal(t, workers, cfg.Agent.Workers)
			require.NotEmpty(t, cfg.Agent.Token)
		})
	}
	urls := text(t, "compose.yaml") + text(t, "prometheus/prometheus.yaml") + text(t, "grafana/provisioning/datasources/prometheus.yaml")
	for _, m := range regexp.MustCompile(`(?:@|http://)([a-z]+)[:/]`).FindAllStringSubmatch(urls, -1) {
		require.Contains(t, services, m[1], "what is called is there")
	}
	for _, m := range regexp.MustCompile(`names: \[(.*)\]`).FindAllStringSubmatch(urls, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			require.Contains(t, services, name, "what is scraped is there")
		}
	}
	rules := regexp.MustCompile(`rule_files: \[(.*)\]`).FindStringSubmatch(urls)[1]
	require.Equal(t, "./prometheus/alerts.yaml", mounted[rules])
	require.Equal(t, "./grafana/dashboard.json", mounted[services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]])
}

// roleOf is the role of a service's DATABASE_URL.
func roleOf(t *testing.T, env map[string]string) string {
	t.Helper()
	u, err := url.Parse(env["DATABASE_URL"])
	require.NoError(t, err)
	return u.User.Username()
}

// migrates checks that a command migrates as the owner, and grants other roles what they need.
func migrates(t *testing.T, command []string, owner string, to map[string]string) {
	t.Helper()
	flags := regexp.MustCompile(`--([a-z-]+)[ =](\S+)`).FindAllStringSubmatch(strings.Join(command, " "), -1)
	require.Equal(t, []string{"migrate", "up"}, command[:2])
	got := map[string]string{}
	for _, m := range flags {
		got["--"+m[1]] = m[2]
		require.NotEqual(t, owner, m[2])
	}
	require.Equal(t, to, got)
}

func TestDockerfile(t *testing.T) {
	file := text(t, "Dockerfile")
	stages := map[string]bool{"scratch": true}
	for _, m := range regexp.MustCompile(`(?m)^FROM (\S+)(?: AS (\S+))?$`).FindAllStringSubmatch(file, -1) {
		if !stages[m[1]] {
			require.Regexp(t, pinned, m[1])
		}
		stages[m[2]] = true
	}
	last := file[strings.LastIndex(file, "\nFROM "):]
	require.Contains(t, last, "\nFROM scratch\n")
	require.Contains(t, last, "\nUSER 65532:65532\n")
	require.Regexp(t, `(?m)^HEALTHCHECK .* CMD \["/leasehold", "health"\]$`, last)
	require.NotContains(t, last, "\nRUN ", "nothing can run in it")
}
