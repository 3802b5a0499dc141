package command

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What may not type on the agent's terminal has a session of its own, and all have a group.
func TestApart(t *testing.T) {
	other := &syscall.Credential{Uid: 65534, Gid: 65534}
	require.Equal(t, &syscall.SysProcAttr{Setsid: true, Credential: other}, apart(other, false))
	require.Equal(t, &syscall.SysProcAttr{Setsid: true, Credential: other}, apart(other, true))
	require.Equal(t, &syscall.SysProcAttr{Setsid: true}, apart(nil, true))
	require.Equal(t, &syscall.SysProcAttr{Setpgid: true}, apart(nil, false))
}
