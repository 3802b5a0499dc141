//go:build !linux

package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// BootClock is CLOCK_MONOTONIC, which on macOS goes on while the machine is suspended.
func BootClock() Clock {
	return ClockFunc(func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			panic("CLOCK_MONOTONIC is always there: " + err.Error())
		}
		return time.Duration(ts.Nano())
	})
}
