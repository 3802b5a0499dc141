package store

import "time"

// Promoted is what a promotion of locks has done.
type Promoted struct {
	Rows   int           // that may be claimed from now on
	Noted  int           // notes that it looked at: as many as it was asked for, if there may be more
	Missed bool          // notes stay, because other transactions are at work on what they are about: ask again in a moment
	Next   time.Duration // until the next lock may go whose holder ended at an unknown time; 0: none
}
