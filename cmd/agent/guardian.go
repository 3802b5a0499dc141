package main

import (
	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/task"
)

// guardianFor is how an agent of those types starts its guardian process; nil: it needs none, as it starts no commands.
func (a *app) guardianFor(types ...*task.Type) []string {
	if fault.Off(fault.Guardian) {
		return nil
	}
	for _, t := range types {
		for _, target := range t.Targets() {
			if _, command := target.(*task.Command); command {
				return a.guardian
			}
		}
	}
	return nil
}
