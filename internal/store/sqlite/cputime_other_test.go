//go:build !linux

package sqlite

import "time"

// cpuTime returns the time of day.
func cpuTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
