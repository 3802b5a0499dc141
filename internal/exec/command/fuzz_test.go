package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/task"
)

// FuzzArguments puts a row's text into arguments and variables. It arrives as it is; but it never makes an option of an
// argument that was not declared to be one, and never reaches the system with a NUL byte in it.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{"", "-", "--help", "a\x00b", "x", "\u2010", " -x", "\n-x", "\xff"} {
		f.Add("", s)
		f.Add("-", s)
		f.Add("--file=", s)
		f.Add("x", s)
	}
	f.Fuzz(func(t *testing.T, fixed, row string) {
		declared := &task.Type{Source: "tasks.hcl:3"}
		c := &task.Command{
			Argv: []task.Argument{
				{Template: exectest.Text("echo")},
				{Template: exectest.Text(fixed + row), Dash: strings.HasPrefix(fixed, "-")},
			},
			Env: map[string]task.Template{"A": exectest.Text(row)},
		}
		got, err := arguments(&task.Task{}, declared, c)
		option := strings.HasPrefix(fixed+row, "-") && !strings.HasPrefix(fixed, "-")
		if option || strings.Contains(fixed+row, "\x00") {
			require.ErrorContains(t, err, "tasks.hcl:3: argv[1]: ")
			require.Nil(t, got)
		} else {
			require.NoError(t, err)
			require.Equal(t, []string{"echo", fixed + row}, got)
		}
		env, err := declaredEnv(&task.Task{}, declared, c)
		if strings.Contains(row, "\x00") {
			require.ErrorContains(t, err, "tasks.hcl:3: env.A: ")
			return
		}
		require.NoError(t, err)
		require.Equal(t, map[string]string{"A": row}, env)
	})
}
