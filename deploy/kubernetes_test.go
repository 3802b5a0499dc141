package deploy_test

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

type object struct {
	Kind     string
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Data map[string]string
	Spec struct {
		Selector map[string]any
		Replicas int

		ScaleTargetRef struct{ Name string } `yaml:"scaleTargetRef"`
		Triggers       []struct{ Metadata map[string]string }
		PodSelector    struct {
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
	Grace           int   `yaml:"terminationGracePeriodSeconds"`
	SecurityContext struct {
		RunAsNonRoot bool                  `yaml:"runAsNonRoot"`
		Seccomp      struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	InitContainers []container `yaml:"initContainers"`
	Containers     []container
	Volumes        []struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
	}
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

type container struct {
	Name, Image   string
	RestartPolicy string `yaml:"restartPolicy"`
	Args          []string
	Env           []struct {
		Name, Value string
		ValueFrom   struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
	Ports           []struct{ Name string }
	Liveness        probe                   `yaml:"livenessProbe"`
	Readiness       probe                   `yaml:"readinessProbe"`
	VolumeMounts    []struct{ Name string } `yaml:"volumeMounts"`
	SecurityContext struct {
		ReadOnly     bool  `yaml:"readOnlyRootFilesystem"`
		Escalation   *bool `yaml:"allowPrivilegeEscalation"`
		Capabilities struct{ Drop []string }
	} `yaml:"securityContext"`
}

// within returns the objects of a manifest by kind and name.
func within(t *testing.T, file string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for _, o := range documents[object](t, file) {
		name := o.Kind + " " + o.Metadata.Name
		require.NotContains(t, all, name)
		all[name] = o
	}
	return all
}

// hardened checks a pod and its containers.
func hardened(t *testing.T, p pod) {
	t.Helper()
	require.NotNil(t, p.Automount)
	require.False(t, *p.Automount)
	require.Equal(t, "RuntimeDefault", p.SecurityContext.Seccomp.Type)
	require.True(t, p.SecurityContext.RunAsNonRoot)
	var volumes []string
	for _, v := range p.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, c := range append(p.InitContainers, p.Containers...) {
		require.True(t, c.SecurityContext.ReadOnly)
		require.NotNil(t, c.SecurityContext.Escalation)
		require.False(t, *c.SecurityContext.Escalation)
		require.Equal(t, []string{"ALL"}, c.SecurityContext.Capabilities.Drop)
		for _, m := range c.VolumeMounts {
			require.Contains(t, volumes, m.Name)
		}
	}
}

// agent checks an agent's container, and loads what it loads.
func agent(t *testing.T, all map[string]object, p pod, c container, workers int) {
	t.Helper()
	require.Equal(t, []string{"run"}, c.Args)
	require.Equal(t, "/-/healthy", c.Liveness.HTTPGet.Path)
	require.Equal(t, c.Ports[0].Name, c.Liveness.HTTPGet.Port)
	env := map[string]string{"DATABASE_URL": "postgres://agent@db/app"} // which the Secret holds
	for _, e := range c.Env {
		env[e.Name] = e.Value
		if e.Name == "POD_ADDRESS" {
			require.Equal(t, "status.podIP", e.ValueFrom.FieldRef.FieldPath)
			env[e.Name] = "10.1.2.3"
		}
	}
	configs := all["ConfigMap "+p.Volumes[0].ConfigMap.Name].Data
	cfg := load(t, configs["leasehold.hcl"], env)
	reachable(t, cfg, "10.1.2.3")
	require.Equal(t, workers, cfg.Agent.Workers)
	// 5 s of stop_grace or cancel_grace by default, 2 s for the kill, and 15 s for the last settlements
	require.Greater(t, float64(p.Grace), cfg.Agent.Drain.Seconds()+22, "it drains within the grace period")
}

func TestStandalone(t *testing.T) {
	all := within(t, "kubernetes/standalone.yaml")
	policy, service := all["NetworkPolicy leasehold"].Spec, all["Service leasehold"].Spec
	require.Equal(t, []string{"Ingress", "Egress"}, policy.PolicyTypes)
	for name, workers := range map[string]int{"Deployment leasehold": 32, "Deployment leasehold-observer": 0} {
		t.Run(name, func(t *testing.T) {
			template := all[name].Spec.Template
			hardened(t, template.Spec)
			agent(t, all, template.Spec, template.Spec.Containers[0], workers)
			require.Equal(t, "/-/ready", template.Spec.Containers[0].Readiness.HTTPGet.Path)
			require.Equal(t, template.Metadata.Labels, toStrings(all[name].Spec.Selector["matchLabels"]))
			for label, value := range policy.PodSelector.MatchLabels {
				require.Equal(t, value, template.Metadata.Labels[label])
			}
			for label, value := range service.Selector {
				require.Equal(t, value, template.Metadata.Labels[label])
			}
		})
	}
	job := all["Job leasehold-migrate"].Spec.Template
	hardened(t, job.Spec)
	migrates(t, job.Spec.Containers[0].Args, "leasehold_owner", map[string]string{"--grant-agent": "leasehold_agent"})
	for _, role := range []string{"leasehold_owner", "leasehold_agent"} { // as in the secrets
		require.Contains(t, text(t, "kubernetes/standalone.yaml"), "DATABASE_URL=postgres://"+role+":")
	}
	require.Equal(t, "LEASEHOLD_STORE", job.Spec.Containers[0].Env[0].Name)
	require.Equal(t, policy.PodSelector.MatchLabels["app.kubernetes.io/name"], job.Metadata.Labels["app.kubernetes.io/name"])

	monitor := within(t, "kubernetes/monitoring.yaml")["ServiceMonitor leasehold"].Spec.Selector
	require.Equal(t, all["Service leasehold"].Metadata.Labels, toStrings(monitor["matchLabels"]))
}

func TestSidecar(t *testing.T) {
	all := within(t, "kubernetes/sidecar.yaml")
	template := all["Deployment application"].Spec.Template
	hardened(t, template.Spec)
	sidecar := template.Spec.InitContainers[0]
	require.Equal(t, "Always", sidecar.RestartPolicy)
	agent(t, all, template.Spec, sidecar, 32)
	require.Contains(t, all["ConfigMap application-leasehold"].Data["leasehold.hcl"], "http://127.0.0.1:")
	require.Equal(t, template.Metadata.Labels, all["NetworkPolicy application-leasehold"].Spec.PodSelector.MatchLabels)
}

// It asks for types that the agents have, by a function that there is.
func TestKEDA(t *testing.T) {
	all := within(t, "kubernetes/standalone.yaml")
	scaled := within(t, "kubernetes/keda.yaml")["ScaledObject leasehold"].Spec
	require.Contains(t, all, "Deployment "+scaled.ScaleTargetRef.Name)
	trigger := scaled.Triggers[0].Metadata
	m := regexp.MustCompile(`^SELECT leasehold\.(\w+)\('(\w+)'\)$`).FindStringSubmatch(trigger["query"])
	require.NotNil(t, m, trigger["query"])
	require.Contains(t, all["ConfigMap leasehold"].Data["leasehold.hcl"], `task "`+m[2]+`"`)
	_, err := strconv.Atoi(trigger["targetQueryValue"])
	require.NoError(t, err)
	function, err := os.ReadFile("../internal/store/postgres/functions/" + m[1] + ".sql")
	require.NoError(t, err)
	require.Contains(t, string(function), "FUNCTION {schema}."+m[1]+"(type text) RETURNS bigint")
}

func toStrings(v any) map[string]string {
	all := map[string]string{}
	m, _ := v.(map[string]any)
	for name, value := range m {
		all[name], _ = value.(string)
	}
	return all
}
