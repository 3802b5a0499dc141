package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// Whatever phase it is in that a command runs: nothing of it may outlive the agent.
func TestAGuardianIsThereForEveryCommand(t *testing.T) {
	a := &app{guardian: []string{"leasehold", "guardian"}}
	hook, command := &task.Webhook{}, &task.Command{}
	require.Nil(t, a.guardianFor())
	require.Nil(t, a.guardianFor(&task.Type{Target: hook, Check: hook, Rollback: hook}))
	for _, typ := range []*task.Type{
		{Target: command}, {Target: hook, Check: command}, {Target: hook, Rollback: command},
	} {
		require.Equal(t, a.guardian, a.guardianFor(&task.Type{Target: hook}, typ))
	}
}
