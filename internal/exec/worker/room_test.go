package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// TestRoomOfFewProcesses has rows claimed ahead once processes are there, where attempts of the type are bounded by them.
func TestRoomOfFewProcesses(t *testing.T) {
	p := play(t, declared(t, "plays"))
	p.typ.Workers = 32
	echo(t, p)
	n, _ := p.Room()
	require.Equal(t, noBound, n)
	p.typ.Rollback = &task.Webhook{}
	n, _ = p.Room()
	require.Equal(t, p.command.Worker.Processes, n)
}
