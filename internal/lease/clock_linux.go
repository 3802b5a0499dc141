package lease

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// BootClock is CLOCK_BOOTTIME (clock_gettime(2)): monotonic, and it goes on while the machine is suspended.
//
// Reading that clock is a system call, where Go reads CLOCK_MONOTONIC without one. The two differ by the time that the
// machine was suspended, so the difference is read now and then: after a suspension the clock is right again
// bootEvery later at the latest.
func BootClock() Clock {
	c := &bootClock{start: time.Now()}
	c.refresh(0)
	return c
}

const bootEvery = 50 * time.Millisecond

type bootClock struct {
	start time.Time
	ahead atomic.Int64 // of the time since start
	read  atomic.Int64 // when ahead was read, as time since start
}

// Now is the time since the machine's start.
func (c *bootClock) Now() time.Duration {
	since := time.Since(c.start)
	if since-time.Duration(c.read.Load()) > bootEvery {
		c.refresh(since)
	}
	return since + time.Duration(c.ahead.Load())
}

// refresh reads the difference anew. It never falls: what two readers see at once may differ by nanoseconds, and time
// must not go back.
func (c *bootClock) refresh(since time.Duration) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("CLOCK_BOOTTIME is there since Linux 2.6.39: " + err.Error())
	}
	c.read.Store(int64(since))
	ahead := ts.Nano() - int64(time.Since(c.start))
	for {
		old := c.ahead.Load()
		if ahead <= old || c.ahead.CompareAndSwap(old, ahead) {
			return
		}
	}
}
