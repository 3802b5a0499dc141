package pressure

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWatch: waiting for time counts; waiting for a processor that another uses does not.
func TestWatch(t *testing.T) {
	w, began := Start(), time.Now()
	if _, ok := w.waits["/proc/pressure/cpu"]; !ok {
		return // this system does not say
	}
	timer := time.NewTimer(100 * time.Millisecond)
	<-timer.C
	require.LessOrEqual(t, w.Took(), time.Since(began)+time.Millisecond)

	before := w.Waited()
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
	for until := time.Now().Add(time.Minute); w.Waited() == before; {
		require.True(t, time.Now().Before(until), "two for each processor, and none waits")
	}
}

// TestSources: the greatest of the times that the machine and the cgroups of the process count is what was waited for.
func TestSources(t *testing.T) {
	const file = "some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
	const quota = "nr_periods 9\nnr_throttled 4\n"
	second := fmt.Sprint(runtime.GOMAXPROCS(0)) + "000000" // of each processor, in µs
	for name, c := range map[string]struct {
		cgroup        string
		before, after map[string]string
		want          time.Duration
	}{
		"none": {"", nil, nil, 0},
		"the machine": {
			"0::/a\n", map[string]string{"proc/pressure/cpu": fmt.Sprintf(file, 5)},
			map[string]string{"proc/pressure/cpu": fmt.Sprintf(file, 3_000_005)}, 3 * time.Second,
		},
		"version 2": {
			"0::/a/b\n", map[string]string{"cg/a/b/cpu.stat": "usage_usec 5\nthrottled_usec 0\n", "cg/cpu.stat": "usage_usec 5\n"},
			map[string]string{"cg/a/b/cpu.stat": "usage_usec 9\n" + quota + "throttled_usec " + second + "\n"}, time.Second,
		},
		"version 2, above": {
			"0::/a/b\n", map[string]string{"cg/a/b/cpu.stat": "usage_usec 5\n", "cg/a/cpu.stat": "throttled_usec 0\n"},
			map[string]string{"cg/a/cpu.stat": "throttled_usec " + second + "\n"}, time.Second,
		},
		"version 2, from inside a container": {
			"0::/../other\n", map[string]string{"cg/cpu.stat": "throttled_usec 0\n", "cg/cpu.pressure": fmt.Sprintf(file, 0)},
			map[string]string{"cg/cpu.stat": "throttled_usec " + second + "\n", "cg/cpu.pressure": fmt.Sprintf(file, 2_000_000)}, 2 * time.Second,
		},
		"version 1": {
			"9:memory:/m\n4:cpu,cpuacct:/docker/x\n0::/\n", map[string]string{"cg/cpu,cpuacct/docker/x/cpu.stat": quota + "throttled_time 0\n"},
			map[string]string{"cg/cpu,cpuacct/docker/x/cpu.stat": quota + "throttled_time " + second + "000\n"}, time.Second,
		},
		"version 1, from inside a container": {
			"1:cpu:/docker/x\n0::/\n", map[string]string{"cg/cpu/cpu.stat": quota + "throttled_time 0\n", "cg/unified/cpu.stat": "usage_usec 1\n"},
			map[string]string{"cg/cpu/cpu.stat": quota + "throttled_time " + second + "000\n"}, time.Second,
		},
		"what begins later does not count": {
			"0::/a\n", nil, map[string]string{"proc/pressure/cpu": fmt.Sprintf(file, 3_000_005)}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(files map[string]string) {
				for name, text := range files {
					require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
					require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
				}
			}
			write(map[string]string{"proc/self/cgroup": c.cgroup})
			write(c.before)
			w := start(system{filepath.Join(dir, "proc"), filepath.Join(dir, "cg")})
			write(c.after)
			require.Equal(t, c.want, w.Waited())
		})
	}
}
