package sqlite

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns how much processor time the thread has used: on a busy machine it varies less than the time that has passed.
func cpuTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
