package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestWeights(t *testing.T) {
	t.Parallel()
	of := func(block string) map[string]int {
		cfg := mustLoad(t, "task \"a\" {\n"+block+"\nwebhook {\nurl = \"http://127.0.0.1:8080/a\"\n}\n}\n", nil)
		return cfg.Tasks[0].Weights
	}
	require.Nil(t, of(""))
	cfg := mustLoad(t, "task \"a\" {\nlimit = 7\ntenant {\nlimit = 3\nrate = \"90/m\"\n}\nwebhook {\nurl = \"http://127.0.0.1:8080/a\"\n}\n}\n", nil)
	require.Equal(t, 7, cfg.Tasks[0].Limit)
	require.Equal(t, task.TenantLimit{Limit: 3, Rate: 1.5, Burst: 1}, cfg.Tasks[0].Tenant)
	require.Equal(t, map[string]int{}, of("tenant {}"))
	require.Equal(t, map[string]int{"acme": 4, "b c": 1000}, of(`tenant {`+"\n"+`weight = { acme = 4, "b c" = 1000 }`+"\n}"))
}
