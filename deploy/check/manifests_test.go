package check

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// objects reads the documents of a manifest.
func objects(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for dec := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o map[string]any
		err := dec.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, text)
		if o != nil {
			all = append(all, o)
		}
	}
}

func TestManifestsAreAsPublished(t *testing.T) {
	files, err := filepath.Glob("../kubernetes/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var s schemas
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		found := objects(t, string(text))
		require.NotEmpty(t, found, file)
		for _, o := range found {
			s.check(t, o)
		}
	}
}

// The schemas refuse what is wrong: a field that does not exist, and one of another type.
func TestSchemasRefuse(t *testing.T) {
	for name, text := range map[string]string{
		"a field":       "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {port: 1}}",
		"a deep field":  "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {selector: {}, template: {spec: {containers: [{name: a, livenesProbe: {}}]}}}}",
		"another type":  "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: http}]}}",
		"a rule":        "{apiVersion: monitoring.coreos.com/v1, kind: PrometheusRule, metadata: {name: a}, spec: {groups: [{name: a, rules: [{alert: a, expression: b}]}]}}",
		"no scale goal": "{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: a}, spec: {triggers: []}}",
	} {
		o := objects(t, text)[0]
		compiled := compile(t, o["apiVersion"].(string), o["kind"].(string))
		require.Error(t, compiled.Validate(plain(t, o)), name)
	}
}

func TestComposeIsAsPublished(t *testing.T) {
	text, err := os.ReadFile(composeSpec.file(t, "schema", "compose-spec.json"))
	require.NoError(t, err)
	spec := schemaOf(t, decode(t, text), "")
	text, err = os.ReadFile("../compose.yaml")
	require.NoError(t, err)
	o := objects(t, string(text))[0]
	require.NoError(t, spec.Validate(plain(t, o)))
	o["services"].(map[string]any)["agent"].(map[string]any)["port"] = "7070"
	require.Error(t, spec.Validate(plain(t, o)))
}
