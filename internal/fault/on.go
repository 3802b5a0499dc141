//go:build faults

package fault

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The environment says what is broken.
const (
	offVariable  = "LEASEHOLD_FAULT_OFF"  // safeguards, separated by commas
	killVariable = "LEASEHOLD_FAULT_KILL" // POINT=N: the process kills itself when it comes by there for the Nth time
)

// state is what the environment says, and what has happened.
type state struct {
	off   []string
	point string

	mu   sync.Mutex
	left int
}

var present = sync.OnceValue(func() *state {
	s := &state{off: strings.Split(os.Getenv(offVariable), ",")}
	if point, n, ok := strings.Cut(os.Getenv(killVariable), "="); ok {
		s.point = point
		s.left, _ = strconv.Atoi(n)
	}
	return s
})

// Built tells whether this binary can be broken on purpose.
const Built = true

// Off tells whether a safeguard is switched off.
func Off(s Safeguard) bool { return slices.Contains(present().off, string(s)) }

// Point is a place in the code at which the process may be killed.
func Point(name string) {
	s := present()
	if name != s.point {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left == 0 {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {} // it comes at once, but not in this very instruction
	}
}
