// Package deploy_test keeps what stands in this folder true: it is read by systemd, Compose and Kubernetes, which no test
// of ours runs.
package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/internal/config"
)

// exposure is the most that `systemd-analyze security` may say of the unit: 0 is best, 10 worst.
const exposure = 4.0

// documents reads all documents of a YAML file. A key that stands there twice is an error.
func documents[T any](t *testing.T, file string) (all []T) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc T
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, file)
		all = append(all, doc)
	}
}

// load loads a configuration in an environment of just these variables, and sees that it names no others.
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

type compose struct {
	Services map[string]struct {
		Image string
		Build *struct{ Context, Dockerfile string }

		Command     []string
		Environment map[string]string
		Volumes     []string
		Ports       []string
		DependsOn   map[string]any `yaml:"depends_on"`
		Deploy      struct{ Replicas int }
	}
}

func TestCompose(t *testing.T) {
	all := documents[compose](t, "compose.yaml")
	require.Len(t, all, 1)
	mounted := map[string]string{}
	for name, s := range all[0].Services {
		require.True(t, s.Image != "" || s.Build != nil, "%s comes from somewhere", name)
		if s.Build != nil {
			require.FileExists(t, filepath.Join(s.Build.Context, s.Build.Dockerfile))
		}
		for _, v := range s.Volumes {
			from, to, _ := strings.Cut(v, ":")
			if strings.HasPrefix(from, ".") { // else it is a volume of Docker's
				require.FileExists(t, from, "%s mounts it", name)
				mounted[strings.TrimSuffix(to, ":ro")] = from
			}
		}
		for other := range s.DependsOn {
			require.Contains(t, all[0].Services, other)
		}
	}
	agent := all[0].Services["agent"]
	require.NotEmpty(t, agent.Ports, "the agent's pages are reachable from outside")
	low, high, ranged := strings.Cut(strings.Split(agent.Ports[0], ":")[1], "-")
	first, err := strconv.Atoi(low)
	require.NoError(t, err)
	if last, err := strconv.Atoi(high); ranged {
		require.NoError(t, err)
		require.Equal(t, agent.Deploy.Replicas, last-first+1, "a port for each replica")
	}
	require.Contains(t, agent.Command, "--migrate")

	text, err := os.ReadFile(mounted["/etc/leasehold/leasehold.hcl"])
	require.NoError(t, err)
	env := map[string]string{"HOSTNAME": "0123456789ab"} // which Docker sets
	maps.Copy(env, agent.Environment)
	reachable(t, load(t, string(text), env), "0123456789ab")
	for _, m := range regexp.MustCompile(`url\s*=\s*"http://([^/"]+)`).FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, all[0].Services, m[1], "what is called is there")
	}
}

type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		PodSelector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Template    struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
	}
}

type pod struct {
	Automount       *bool `yaml:"automountServiceAccountToken"`
	SecurityContext struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
		Seccomp      struct {
			Type string
		} `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []struct {
		Name, Image string
		Args        []string
		Env         []struct {
			Name      string
			ValueFrom struct {
				FieldRef struct {
					FieldPath string `yaml:"fieldPath"`
				} `yaml:"fieldRef"`
			} `yaml:"valueFrom"`
		}
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
		SecurityContext struct {
			ReadOnly   bool  `yaml:"readOnlyRootFilesystem"`
			Escalation *bool `yaml:"allowPrivilegeEscalation"`

			Capabilities struct{ Drop []string }
		} `yaml:"securityContext"`
	}
	Volumes []struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
	}
}

func TestKubernetes(t *testing.T) {
	kinds := map[string]object{}
	for _, o := range documents[object](t, "kubernetes.yaml") {
		require.NotEmpty(t, o.Metadata.Name)
		require.NotContains(t, kinds, o.Kind)
		kinds[o.Kind] = o
	}
	deployment := kinds["Deployment"].Spec.Template
	p := deployment.Spec
	require.NotNil(t, p.Automount)
	require.False(t, *p.Automount)
	require.Equal(t, "RuntimeDefault", p.SecurityContext.Seccomp.Type)
	require.True(t, p.SecurityContext.RunAsNonRoot)
	c := p.Containers[0]
	require.True(t, c.SecurityContext.ReadOnly)
	require.NotNil(t, c.SecurityContext.Escalation)
	require.False(t, *c.SecurityContext.Escalation)
	require.Equal(t, []string{"ALL"}, c.SecurityContext.Capabilities.Drop)
	var volumes []string
	for _, v := range p.Volumes {
		volumes = append(volumes, v.Name)
		if v.ConfigMap.Name != "" {
			require.Equal(t, kinds["ConfigMap"].Metadata.Name, v.ConfigMap.Name)
		}
	}
	for _, m := range c.VolumeMounts {
		require.Contains(t, volumes, m.Name)
	}
	require.True(t, slices.ContainsFunc(p.Volumes, func(v struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
	},
	) bool {
		return v.ConfigMap.Name != ""
	}), "the configuration is mounted")

	policy := kinds["NetworkPolicy"].Spec
	require.Equal(t, deployment.Metadata.Labels, policy.PodSelector.MatchLabels)
	require.Equal(t, []string{"Ingress", "Egress"}, policy.PolicyTypes)

	env := map[string]string{"DATABASE_URL": "postgres://agent@db/app"} // which the Secret holds
	for _, e := range c.Env {
		require.Equal(t, "status.podIP", e.ValueFrom.FieldRef.FieldPath)
		env[e.Name] = "10.1.2.3"
	}
	reachable(t, load(t, kinds["ConfigMap"].Data["leasehold.hcl"], env), "10.1.2.3")
}

// unit reads the settings of the unit; of one that stands there more often the last.
func unit(t *testing.T) (text string, settings map[string]string) {
	t.Helper()
	b, err := os.ReadFile("leasehold.service")
	require.NoError(t, err)
	settings = map[string]string{}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			settings[name] = value
		}
	}
	return string(b), settings
}

func TestUnit(t *testing.T) {
	_, s := unit(t)
	require.Equal(t, "notify", s["Type"])
	require.NotEmpty(t, s["WatchdogSec"])
	require.Equal(t, "mixed", s["KillMode"], "draining is the agent's")
	require.Contains(t, s["ExecStart"], " --migrate ")
	require.NotContains(t, s, "UMask", "tasks inherit it")
	require.Equal(t, "yes", s["Delegate"], "attempts have cgroups")
	for _, name := range []string{"ProtectControlGroups", "RestrictNamespaces"} {
		require.NotContains(t, s, name, "no cgroups could be made, or nothing started in them")
	}
	require.NotContains(t, s, "MemoryDenyWriteExecute", "what compiles at run time would not run")
}

// systemd's own tools read the unit, where they are.
func TestUnitIsReadBySystemd(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "systemd-analyze is missing: apt-get install systemd")
		t.Log("systemd-analyze is not here: the unit is not checked by it")
		return
	}
	text, s := unit(t)
	program, _, _ := strings.Cut(s["ExecStart"], " ")
	file := filepath.Join(t.TempDir(), "leasehold.service")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, program, "/bin/true")), 0o600))
	out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "leasehold.service", "it warns")

	out, err = exec.Command(analyze, "security", "--no-pager", "--offline=yes", "leasehold.service").CombinedOutput()
	require.NoError(t, err, "%s", out)
	m := regexp.MustCompile(`Overall exposure level for leasehold.service: ([0-9.]+)`).FindSubmatch(out)
	require.NotNil(t, m, "%s", out)
	level, err := strconv.ParseFloat(string(m[1]), 64)
	require.NoError(t, err)
	require.LessOrEqual(t, level, exposure, "%s", out)
}
