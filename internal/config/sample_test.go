package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestSampleHasWhatTemplatesNeed(t *testing.T) {
	for body, want := range map[string]string{
		`command { argv = ["true"] }`: `{}`,
		`command { argv = ["echo", "${task.data.file}", "${task.data.size.width}", task.type, "${task.id}"] }`: `{"file":1,"size":{"width":1}}`,
		`command { argv = ["echo", "${task.data.items[1].name}", "${task.data["odd name"]}"] }`:                `{"items":[1,{"name":1}],"odd name":1}`,
		`command { argv = ["echo", upper(task.data.a), jsonencode(task.data.b), "${task.data.b.c}"] }`:         `{"a":1,"b":{"c":1}}`,
		`command { argv = ["echo", jsonencode(task.data)] }`:                                                   `{}`,
		`webhook { url = "http://127.0.0.1/${task.data.invoice}?x=${task.data.x}" }
		 rollback {
		   command { argv = ["undo", "${task.data.was}"] }
		 }`: `{"invoice":1,"was":1,"x":1}`,
	} {
		cfg := mustLoad(t, "task \"t\" {\n"+body+"\n}\n", nil)
		require.JSONEq(t, want, string(cfg.Sample("t")), body)
		row := &task.Task{ID: 1, Type: "t", State: task.StatePending, Payload: cfg.Sample("t")}
		if c, ok := cfg.Tasks[0].Target.(*task.Command); ok {
			for _, arg := range c.Argv {
				_, err := arg.Template(row)
				require.NoError(t, err, body)
			}
		}
	}
	cfg := mustLoad(t, "task \"t\" {\ncommand {\nargv = [\"true\"]\n}\n}\n", nil)
	require.JSONEq(t, `{}`, string(cfg.Sample("unknown")))
}
