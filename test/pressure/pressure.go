// Package pressure measures how busy the machine was, for bounds in real time that a shared processor would break.
package pressure

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// Waited returns for how long, since the system started, something has waited for a processor. Between two calls it grows by
// nothing on an idle machine, and by the time between them on one that has more to do than it can. It is 0 where the system
// does not say (Linux does, unless it was built without).
func Waited() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	// some avg10=0.00 avg60=0.00 avg300=0.00 total=12345
	line, _, _ := bytes.Cut(text, []byte("\n"))
	_, total, _ := bytes.Cut(line, []byte("total="))
	us, err := strconv.ParseInt(string(total), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

// Watch measures time as time.Since does, without what anything has waited for a processor meanwhile.
type Watch struct {
	began  time.Time
	waited time.Duration
}

// Start starts a watch.
func Start() Watch { return Watch{time.Now(), Waited()} }

// Took returns how much time has passed, less the time in which something waited for a processor.
func (w Watch) Took() time.Duration { return max(time.Since(w.began)-(Waited()-w.waited), 0) }
