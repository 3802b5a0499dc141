package store

// Answer is the store's answer for one row of a Renew or a Settle.
type Answer uint8

// The answers. A row that is Busy is asked for again, and never treated as Lost.
const (
	Lost          Answer = iota // another attempt holds the row, or it is over: stop the work, drop the outcome
	Applied                     // done
	Ended                       // a repeat of what is already so
	Busy                        // another transaction has locked the row: try again
	CancelPending               // a cancellation was requested that the decision did not know of: decide again
	CannotSplit                 // the row is to be split, and is no chunk any more, or of a batch that stops: decide again
)

func (a Answer) String() string {
	return [...]string{Lost: "lost", Applied: "applied", Ended: "ended", Busy: "busy", CancelPending: "cancel pending", CannotSplit: "cannot split"}[a]
}
