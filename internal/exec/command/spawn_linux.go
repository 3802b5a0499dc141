package command

import (
	"syscall"

	"github.com/leasehold/leasehold/internal/exec/command/cgroup"
)

// inCgroup has a process started in a cgroup (CLONE_INTO_CGROUP): it is in it before it does anything.
func inCgroup(sys *syscall.SysProcAttr, g *cgroup.Group) {
	sys.UseCgroupFD, sys.CgroupFD = true, g.FD()
}

func outOfCgroup(sys *syscall.SysProcAttr) { sys.UseCgroupFD = false }
