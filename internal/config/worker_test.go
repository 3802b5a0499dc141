package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestWorker(t *testing.T) {
	declare := func(attrs, block string) *task.Worker {
		t.Helper()
		cfg := mustLoad(t, "task \"a\" {\n"+attrs+"\ncommand {\nargv = [\"true\"]\nenv = { MODE = \"fast\" }\n"+block+"\n}\n}\n", nil)
		c, ok := cfg.Tasks[0].Target.(*task.Command)
		require.True(t, ok)
		return c.Worker
	}
	require.Nil(t, declare("", ""), "a process for each attempt")
	require.Equal(t, &task.Worker{Processes: 7, Idle: time.Minute, MaxTasks: 1000, Ready: 10 * time.Second}, declare("workers = 7", "worker {}"))
	require.Equal(t, &task.Worker{Processes: 3, Idle: time.Hour, Ready: time.Minute},
		declare("workers = 7", "worker {\nprocesses = 3\nidle = \"1h\"\nmax_tasks = 0\nready = \"1m\"\n}"))
}
