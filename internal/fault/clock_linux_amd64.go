//go:build faults

package fault

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// clockVariable names a file of eight bytes: by how many nanoseconds the clock on the wall is wrong, seconds at a time.
const clockVariable = "LEASEHOLD_FAULT_CLOCK"

// A process cannot be given a wrong clock from outside: Go asks a page of the kernel's, which no library can stand in
// for, and Linux has namespaces for monotonic clocks only. So the function of that page is called by one of ours.
//
//go:linkname vdsoClockGettime runtime.vdsoClockgettimeSym
var vdsoClockGettime uintptr

var (
	kernelsClock uintptr // the function in the kernel's page
	wrongSeconds int64   // added to what it says of the clock on the wall
)

// wrongClock is clock_gettime(2), as C calls it.
func wrongClock()

// wrongClockAt is where it is.
func wrongClockAt() uintptr

// A wrong clock on the wall is wrong from the start, and steps.
func init() {
	path := os.Getenv(clockVariable)
	if path == "" || vdsoClockGettime == 0 {
		return
	}
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	page, err := unix.Mmap(int(file.Fd()), 0, 8, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	_ = file.Close()
	offset := (*int64)(unsafe.Pointer(&page[0]))
	wrongSeconds = *offset / int64(time.Second)
	kernelsClock = vdsoClockGettime
	vdsoClockGettime = wrongClockAt()
	go func() { // as long as the process
		for range time.Tick(5 * time.Millisecond) {
			wrongSeconds = *offset / int64(time.Second)
		}
	}()
}
