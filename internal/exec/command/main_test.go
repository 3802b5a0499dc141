package command

import (
	"os"
	"syscall"

	"github.com/leasehold/leasehold/internal/exec/command/guardian"
)

// partsArePlayed is set by playsPart: without it in TestMain, a process that is to play a part would run all tests.
var partsArePlayed bool

// playsPart makes the test binary a guardian process, or an agent, where it was started as one.
func playsPart() bool {
	partsArePlayed = true
	if len(os.Args) == 2 && os.Args[1] == guardian.Argument {
		syscall.Exit(guardian.Main()) // os.Exit would have the race detector wait for a second
	}
	if os.Getenv(helperVariable) != "agent" {
		return false
	}
	agent()
	return true
}
