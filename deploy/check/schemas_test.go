package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// A published module has schemas among its files. Nothing of it is compiled: `go mod download` fetches it, checks it against the public
// checksums, and unpacks it, and the test compares its sum.
type published struct{ path, version, sum string }

var (
	kubernetes = published{"k8s.io/kubernetes", "v1.37.2", "h1:A2VDEiObzkYqFTKhSsn0ZEb0RlLEXpHWj93gi2HqEwE="}
	keda       = published{"github.com/kedacore/keda/v2", "v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps="}
	operator   = published{
		"github.com/prometheus-operator/prometheus-operator", "v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
	}
	composeSpec = published{"github.com/compose-spec/compose-go/v2", "v2.16.2", "h1:pTp1DqQwJzFd85GzlWsSszKA1ABrV/ySqsClujIcWA8="}
)

// file returns the path of a file of the module.
func (p published) file(t *testing.T, name ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", p.path+"@"+p.version)
	c.Stderr = os.Stderr
	out, err := c.Output()
	require.NoError(t, err, "%s", out)
	var got struct{ Dir, Sum string }
	require.NoError(t, json.Unmarshal(out, &got))
	require.Equal(t, p.sum, got.Sum, p.path)
	return filepath.Join(append([]string{got.Dir}, name...)...)
}

// openAPI are the files of Kubernetes' API with the schemas of an API version.
var openAPI = map[string]string{
	"v1": "api__v1_openapi.json", "apps/v1": "apis__apps__v1_openapi.json", "batch/v1": "apis__batch__v1_openapi.json",
	"networking.k8s.io/v1": "apis__networking.k8s.io__v1_openapi.json",
}

// resources are the definitions of resources that are not Kubernetes' own.
var resources = map[string]struct {
	published
	file []string
}{
	"ServiceMonitor": {operator, []string{"example", "prometheus-operator-crd", "monitoring.coreos.com_servicemonitors.yaml"}},
	"PrometheusRule": {operator, []string{"example", "prometheus-operator-crd", "monitoring.coreos.com_prometheusrules.yaml"}},
	"ScaledObject":   {keda, []string{"config", "crd", "bases", "keda.sh_scaledobjects.yaml"}},
}

// schemas compiles each schema once.
type schemas struct{ compiled map[string]*jsonschema.Schema }

// check compares an object with the schema of its version and kind.
func (s *schemas) check(t *testing.T, o map[string]any) {
	t.Helper()
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	name := version + " " + kind
	if s.compiled[name] == nil {
		if s.compiled == nil {
			s.compiled = map[string]*jsonschema.Schema{}
		}
		s.compiled[name] = compile(t, version, kind)
	}
	require.NoError(t, s.compiled[name].Validate(plain(t, o)), "%s %v", name, o["metadata"])
}

func compile(t *testing.T, version, kind string) *jsonschema.Schema {
	t.Helper()
	if r, ok := resources[kind]; ok {
		doc := definition(t, r.published.file(t, r.file...), version)
		strict(doc)
		return schemaOf(t, doc, "")
	}
	require.Contains(t, openAPI, version, kind)
	text, err := os.ReadFile(kubernetes.file(t, "api", "openapi-spec", "v3", openAPI[version]))
	require.NoError(t, err)
	doc := decode(t, text)
	strict(doc)
	for name, one := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		kinds, _ := one.(map[string]any)["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			k := k.(map[string]any)
			if strings.TrimPrefix(fmt.Sprint(k["group"], "/", k["version"]), "/") == version && k["kind"] == kind {
				return schemaOf(t, doc, "#/components/schemas/"+name)
			}
		}
	}
	t.Fatalf("Kubernetes has no %s of %s", kind, version)
	return nil
}

// definition reads the schema of a version from a CustomResourceDefinition.
func definition(t *testing.T, file, version string) map[string]any {
	t.Helper()
	var crd struct {
		Spec struct {
			Group    string
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPI map[string]any `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &crd))
	for _, v := range crd.Spec.Versions {
		if crd.Spec.Group+"/"+v.Name == version {
			return plain(t, v.Schema.OpenAPI).(map[string]any)
		}
	}
	t.Fatalf("%s has no version %s", file, version)
	return nil
}

func schemaOf(t *testing.T, doc map[string]any, at string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("mem:///schema.json", doc))
	s, err := c.Compile("mem:///schema.json" + at)
	require.NoError(t, err)
	return s
}

// strict has objects with known fields refuse all others, as kubectl does by default.
func strict(node any) {
	switch n := node.(type) {
	case map[string]any:
		_, named := n["properties"].(map[string]any)
		if named && n["type"] == "object" && n["additionalProperties"] == nil && n["x-kubernetes-preserve-unknown-fields"] == nil {
			n["additionalProperties"] = false
		}
		for _, child := range maps.All(n) {
			strict(child)
		}
	case []any:
		for _, child := range n {
			strict(child)
		}
	}
}

// plain turns what YAML gave into what JSON gives.
func plain(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	got, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	require.NoError(t, err)
	return got
}

func decode(t *testing.T, text []byte) map[string]any {
	t.Helper()
	got, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	require.NoError(t, err)
	return got.(map[string]any)
}
