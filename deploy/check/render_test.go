package check

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const chart = "../helm/leasehold"

// render renders the chart as `helm template` does, with Go's templates and Helm's functions. Helm itself takes minutes to build, as it
// brings all of Kubernetes' client; test/deploy runs `helm lint` and `helm template` as well where there is a helm.
func render(t *testing.T, values string) (text string, err error) {
	t.Helper()
	merged := map[string]any{}
	defaults, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(defaults, &merged))
	over := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(values), &over))
	merge(merged, over)
	var about struct {
		Name, Version string
		AppVersion    string `yaml:"appVersion"`
	}
	meta, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(meta, &about))

	root := template.New("chart").Option("missingkey=zero")
	root.Funcs(functions(root))
	names, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	require.NoError(t, err)
	for _, name := range names {
		body, err := os.ReadFile(name)
		require.NoError(t, err)
		_, err = root.New(filepath.Base(name)).Parse(string(body))
		require.NoError(t, err)
	}
	data := map[string]any{
		"Values": merged, "Chart": about, "Files": files{},
		"Release": map[string]any{"Name": "shop", "Namespace": "production", "Service": "Helm", "IsInstall": true, "Revision": 1},
	}
	var all strings.Builder
	for _, name := range names {
		if base := filepath.Base(name); !strings.HasPrefix(base, "_") {
			var one bytes.Buffer
			if err := root.ExecuteTemplate(&one, base, data); err != nil {
				return "", err
			}
			if base != "NOTES.txt" {
				fmt.Fprintf(&all, "---\n%s\n", strings.ReplaceAll(one.String(), "<no value>", ""))
			}
		}
	}
	return all.String(), nil
}

// files are those of the chart.
type files struct{}

func (files) Get(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(chart, name))
	return string(text), err
}

// functions are sprig's, without those that Helm takes away, and Helm's own as far as the chart uses them.
func functions(root *template.Template) template.FuncMap {
	f := sprig.TxtFuncMap()
	maps.DeleteFunc(f, func(name string, _ any) bool { return name == "env" || name == "expandenv" })
	f["toYaml"] = func(v any) (string, error) {
		text, err := yaml.Marshal(v)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	f["include"] = func(name string, data any) (string, error) {
		var out strings.Builder
		err := root.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	f["required"] = func(why string, v any) (any, error) {
		if v == nil || v == "" {
			return nil, errors.New(why)
		}
		return v, nil
	}
	return f
}

func merge(into, from map[string]any) {
	for name, v := range from {
		below, ok := into[name].(map[string]any)
		if over, also := v.(map[string]any); ok && also {
			merge(below, over)
		} else {
			into[name] = v
		}
	}
}
