package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnFailed(t *testing.T) {
	target := "\n  command {\n    argv = [\"sh\"]\n  }\n}\n"
	warned := func(attrs string) []Warning {
		cfg := mustLoad(t, "task \"a\" {\n"+attrs+target+"task \"dead\" {\n  aliases = [\"gone\"]"+target, nil)
		return cfg.Warnings
	}
	for _, well := range []string{"", `on_failed = "dead"`, `on_failed = "gone"`, `on_failed = ""`, "on_failed = null"} {
		require.Empty(t, warned(well), well)
	}
	cfg := mustLoad(t, "task \"a\" {\n  on_failed = \"dead\""+target+"task \"b\" {"+target, nil)
	require.Equal(t, "dead", cfg.Type("a").Policy.OnFailed)
	require.Empty(t, cfg.Type("b").Policy.OnFailed)
	got := warned(`on_failed = "ded"`)
	require.Len(t, got, 1)
	require.Contains(t, got[0].Place, "leasehold.hcl:2")
	require.Contains(t, got[0].Text, `For each task of the type "a" that has failed for good, a task of the type "ded" is inserted`)
	require.Contains(t, got[0].Text, `Did you mean "dead"?`)
}
