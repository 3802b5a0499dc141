// Command leasehold is the agent and everything that an operator does with it.
package main

import (
	"os"
	"syscall"
	_ "time/tzdata" // schedules name time zones, and an image from scratch has no files of them

	"github.com/leasehold/leasehold/internal/exec/command/guardian"
	"github.com/leasehold/leasehold/internal/exec/command/hide"
)

func main() {
	args := os.Args[1:]
	if len(args) == 1 && args[0] == guardian.Argument { // an agent has started it: help knows nothing of it
		syscall.Exit(guardian.Main()) // nothing is to be done at its end
	}
	hide.Hide() // first of all: the environment may hold the password of the store, and the guardian's is empty
	os.Exit(execute(args, guardian.Self()))
}
