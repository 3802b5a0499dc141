package leasehold

import "github.com/leasehold/leasehold/internal/exec/command/guardian"

// IsGuardian reports whether this process was started as the guardian of a measured one: those start commands as agents do.
func IsGuardian(args []string) bool { return len(args) == 1 && args[0] == guardian.Argument }

// Guardian is such a process, and gives its exit code.
func Guardian() int { return guardian.Main() }
