package task

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAtOnce(t *testing.T) {
	worker := &Command{Worker: &Worker{Processes: 4}}
	for name, c := range map[string]struct {
		typ  Type
		want int
	}{
		"a webhook":                {Type{Workers: 8, Target: &Webhook{}}, 8},
		"a command":                {Type{Workers: 8, Target: &Command{}}, 8},
		"unbounded":                {Type{Target: &Webhook{}}, 0},
		"fewer processes":          {Type{Workers: 8, Target: worker}, 4},
		"more processes":           {Type{Workers: 2, Target: worker}, 2},
		"a worker, else unbounded": {Type{Target: worker}, 4},
		"a check beside it":        {Type{Workers: 8, Target: worker, Check: &Webhook{}}, 8},
		"a rollback beside it":     {Type{Workers: 8, Target: worker, Rollback: worker}, 8},
	} {
		require.Equal(t, c.want, c.typ.AtOnce(), name)
	}
}
