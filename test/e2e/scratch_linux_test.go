package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestZonesAreInTheBinary validates a schedule where there is nothing but the binary, as in an image from scratch.
func TestZonesAreInTheBinary(t *testing.T) {
	root := t.TempDir()
	binary, err := os.ReadFile(harness.Binary(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "leasehold"), binary, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "leasehold.hcl"), []byte(`
schedule "nightly" {
  task     = "report.build"
  cron     = "0 3 * * *"
  timezone = "Asia/Singapore"
}
`), 0o600))
	cmd := exec.CommandContext(t.Context(), "/leasehold", "validate", "/leasehold.hcl")
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if uid := os.Geteuid(); uid != 0 { // in a user namespace of its own it may change its root, too
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) && os.Geteuid() != 0 {
		require.Empty(t, os.Getenv("CI"), "run as root, or allow user namespaces")
		t.Log("this user may not change the root of a process")
		return
	}
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `(?m)^schedule nightly: at 03:00 every day, Asia/Singapore; next [0-9-]+T03:00:00\+08:00$`, string(out))
}
