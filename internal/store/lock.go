package store

import "time"

// Promoted is what a promotion of locks and of the turns of sequences has done.
type Promoted struct {
	Rows   int           // that may be claimed from now on
	Noted  int           // notes that it looked at: as many as it was asked for, if there may be more
	Missed bool          // notes stay, because other transactions are at work on what they are about: ask again in a moment
	Next   time.Duration // until the next lock or turn may go whose holder ended at an unknown time; 0: none
}

// With is what two promotions have done, one of locks and one of turns.
func (p Promoted) With(q Promoted) Promoted {
	next := min(p.Next, q.Next)
	if next == 0 {
		next = max(p.Next, q.Next)
	}
	return Promoted{Rows: p.Rows + q.Rows, Noted: max(p.Noted, q.Noted), Missed: p.Missed || q.Missed, Next: next}
}
