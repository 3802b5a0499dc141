package exec

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
)

// TestWorkersInheritNothing starts a worker while another has its pipes: it gets its own and no more.
func TestWorkersInheritNothing(t *testing.T) {
	r := runner(t, io.Discard)
	for _, name := range []string{"a", "b", "c"} {
		typ := &task.Type{Name: name, Target: shell(`ls /proc/$$/fd; ` + ends(`"result": 1`))}
		l := exectest.Attempt{}.Lease()
		o := r.Run(l, typ)
		l.Close()
		require.Equal(t, task.Succeeded, o.Verdict, o.Error)
		require.Equal(t, "0\n1\n2\n3\n", o.Output, name)
	}
}
