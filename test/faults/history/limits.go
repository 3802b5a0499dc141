package history

// LimitMove is a change of the limit that is in force for a type, written down as a row's move is.
type LimitMove struct {
	Serial int64
	Type   string
	Name   string // of the limit, which other types may share; "": the type has none any more
	Most   int    // 0: it does not bound how many run at once
}
