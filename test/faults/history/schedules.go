package history

import "time"

// Schedule is a schedule of one slot a second, as the end of a run shows it.
type Schedule struct {
	Name   string
	Missed int64       // slots that did not fire, as the store counts them
	Fired  []time.Time // slots that fired, in their order; one that fired twice is there twice
}
