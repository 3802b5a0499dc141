package exec_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/task"
)

func TestOnlyAgentsOfCommandsAreGivenMoreAtOnce(t *testing.T) {
	command, webhook := &task.Type{Target: &task.Command{}}, &task.Type{Target: &task.Webhook{}}
	for name, c := range map[string]struct {
		types []*task.Type
		says  string // GOMAXPROCS in the environment
		times int
	}{
		"commands":                       {[]*task.Type{command, command}, "", 2},
		"commands and webhooks":          {[]*task.Type{command, webhook}, "", 1},
		"webhooks":                       {[]*task.Type{webhook}, "", 1},
		"a webhook that is asked before": {[]*task.Type{{Target: &task.Command{}, Check: &task.Webhook{}}}, "", 1},
		"a webhook as rollback":          {[]*task.Type{{Target: &task.Command{}, Rollback: &task.Webhook{}}}, "", 1},
		"nothing":                        {nil, "", 1},
		"a user who knows":               {[]*task.Type{command}, strconv.Itoa(runtime.GOMAXPROCS(0)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOMAXPROCS", c.says)
			before := runtime.GOMAXPROCS(0)
			defer runtime.GOMAXPROCS(before)
			again := exec.Parallel(c.types)
			require.Equal(t, c.times*before, runtime.GOMAXPROCS(0))
			again(c.types)
			require.Equal(t, c.times*before, runtime.GOMAXPROCS(0), "again")
			again([]*task.Type{webhook})
			require.Equal(t, before, runtime.GOMAXPROCS(0), "once it has other types")
		})
	}
}
