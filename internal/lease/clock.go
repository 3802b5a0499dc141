package lease

import "time"

// Clock gives local times: durations since some fixed moment, monotonic, the time that the machine was suspended
// included.
type Clock interface{ Now() time.Duration }

// ClockFunc makes a function a Clock.
type ClockFunc func() time.Duration

// Now calls f.
func (f ClockFunc) Now() time.Duration { return f() }

// RunClock counts the time that the process sees, in which suspended time is missing; under testing/synctest it is the
// bubble's virtual time.
func RunClock() Clock {
	start := time.Now()
	return ClockFunc(func() time.Duration { return time.Since(start) })
}
