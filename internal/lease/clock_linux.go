package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// BootClock is CLOCK_BOOTTIME (clock_gettime(2)): monotonic, and it goes on while the machine is suspended.
func BootClock() Clock {
	return ClockFunc(func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			panic("CLOCK_BOOTTIME is there since Linux 2.6.39: " + err.Error())
		}
		return time.Duration(ts.Nano())
	})
}
