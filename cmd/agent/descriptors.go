package main

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/task"
)

// What the agent needs descriptors for, beside the listener's connections.
const (
	ownDescriptors     = 64 // the runtime's, logs, the guardian's pipes, cgroups, notifications
	storeDescriptors   = 4  // of one connection: SQLite has a database, a log, and an index open
	webhookDescriptors = 4  // of one attempt: its connection, one being made, and those of before that are not closed yet
	commandDescriptors = 12 // of one attempt: while it is started its pipes have both ends here
	leastConnections   = 32 // that the listener keeps, however few descriptors there are
)

// connections is how many connections the listener may keep, so that attempts always find descriptors. Go raises the soft
// limit of descriptors to the hard one at the start of a process, and gives what the process starts the original again.
func (a *agent) connections(cfg *config.Config) int {
	limit, err := descriptorLimit()
	if err != nil {
		a.log.Warn("cannot read the limit of open files", "err", err)
		return api.DefaultConnections
	}
	reserve := reserved(cfg)
	if limit < reserve+leastConnections {
		a.log.Warn("the limit of open files is too low for the number of workers: attempts may fail to start; raise it "+
			"(ulimit -n, LimitNOFILE) or lower `workers`", "limit", limit, "needed", reserve+leastConnections)
	}
	return min(max(limit-reserve, leastConnections), api.DefaultConnections)
}

// descriptorLimit is how many descriptors this process may have open.
func descriptorLimit() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	return int(min(limit.Cur, math.MaxInt32)), nil
}

// reserved is how many descriptors an agent of that configuration may need for all but its listener.
func reserved(cfg *config.Config) int {
	attempt := webhookDescriptors
	for _, t := range cfg.Tasks {
		for _, target := range t.Targets() {
			if _, command := target.(*task.Command); command {
				attempt = commandDescriptors
			}
		}
	}
	return ownDescriptors + storeDescriptors*(cfg.Store.Connections+2) + attempt*cfg.Agent.Workers
}
