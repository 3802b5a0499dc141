package history

import "time"

// OrphanOp is what an operator asked for, of all rows that wait of a type that no agent declares.
type OrphanOp struct {
	Requested time.Duration
	Verb      string // move or cancel
	Type      string
	Into      string // the type that they get; "": they are cancelled
}

// TypeMove is a row that got another type, written down as its move is.
type TypeMove struct {
	Serial   int64
	ID       int64
	From, To string
}
