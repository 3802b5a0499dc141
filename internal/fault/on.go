//go:build faults

package fault

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The environment says what is broken.
const (
	offVariable  = "LEASEHOLD_FAULT_OFF"  // safeguards, separated by commas
	killVariable = "LEASEHOLD_FAULT_KILL" // POINT=N: the process kills itself when it comes by there for the Nth time
	tickVariable = "LEASEHOLD_FAULT_TICK" // how long a tick is, by which claims are numbered
)

// state is what the environment says, and what has happened.
type state struct {
	off   []string
	point string
	tick  time.Duration // 0: claims are numbered as they are

	mu   sync.Mutex
	left int
}

var present = sync.OnceValue(func() *state {
	s := &state{off: strings.Split(os.Getenv(offVariable), ",")}
	if point, n, ok := strings.Cut(os.Getenv(killVariable), "="); ok {
		s.point = point
		s.left, _ = strconv.Atoi(n)
	}
	s.tick, _ = time.ParseDuration(os.Getenv(tickVariable))
	return s
})

// Built reports whether this binary can be broken on purpose.
const Built = true

// Off reports whether a safeguard is switched off.
func Off(s Safeguard) bool { return slices.Contains(present().off, string(s)) }

// Number is the number of a claim: the one after the session's last. Where the environment says so it waits for the next
// tick of the clock on the wall and is the number of that: a session's numbers rise all the same, and all sessions claim
// with the same number at the same moment.
func Number(next int64) int64 {
	length := int64(present().tick)
	if length <= 0 {
		return next
	}
	now := time.Now().UnixNano()
	tick := now/length + 1
	<-time.After(time.Duration(tick*length - now))
	return max(next, tick)
}

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
