package command

import (
	"syscall"

	"github.com/leasehold/leasehold/internal/exec/command/cgroup"
)

// There are no cgroups here.
func inCgroup(*syscall.SysProcAttr, *cgroup.Group) {}
func outOfCgroup(*syscall.SysProcAttr)             {}
