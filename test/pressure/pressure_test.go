package pressure_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/pressure"
)

// TestWatch: waiting for time counts; waiting for a processor that another uses does not.
func TestWatch(t *testing.T) {
	if pressure.Waited() == 0 {
		return // this system does not say
	}
	w, began := pressure.Start(), time.Now()
	timer := time.NewTimer(100 * time.Millisecond)
	<-timer.C
	require.LessOrEqual(t, w.Took(), time.Since(began)+time.Millisecond)

	before := pressure.Waited()
	var stop atomic.Bool
	defer stop.Store(true)
	for range 2 * runtime.NumCPU() {
		go func() {
			runtime.LockOSThread()
			for n := 0; !stop.Load(); n++ {
				if n%1000 == 0 {
					runtime.Gosched()
				}
			}
		}()
	}
	for until := time.Now().Add(time.Minute); pressure.Waited() == before; {
		require.True(t, time.Now().Before(until), "two for each processor, and none waits")
	}
}
