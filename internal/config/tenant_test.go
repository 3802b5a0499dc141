package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWeights(t *testing.T) {
	t.Parallel()
	of := func(block string) map[string]int {
		cfg := mustLoad(t, "task \"a\" {\n"+block+"\nwebhook {\nurl = \"http://127.0.0.1:8080/a\"\n}\n}\n", nil)
		return cfg.Tasks[0].Weights
	}
	require.Nil(t, of(""))
	require.Equal(t, map[string]int{}, of("tenant {}"))
	require.Equal(t, map[string]int{"acme": 4, "b c": 1000}, of(`tenant {`+"\n"+`weight = { acme = 4, "b c" = 1000 }`+"\n}"))
}
