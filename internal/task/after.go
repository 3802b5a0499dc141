package task

import "encoding/json"

// Bounds of what a run gets to know of the tasks that its own has waited for.
const (
	MostAfter      = 100       // tasks
	MostAfterBytes = 256 << 10 // of their results
)

// After is what a run gets to know of the tasks that its own has waited for: the first ones by id, within the bounds above.
type After struct {
	Tasks     []Predecessor
	Truncated bool // there are more
}

// Predecessor is a task that another one has waited for. Without a type and a state it is past its retention: nothing else is known.
type Predecessor struct {
	ID     ID
	Type   string
	State  State
	Result json.RawMessage // nil: none
}

// Add adds the next predecessor by id, unless that is one too many. bytes is how long its result is together with those before.
func (a *After) Add(p Predecessor, bytes int64) {
	if a.Truncated || len(a.Tasks) >= MostAfter || bytes > MostAfterBytes {
		a.Truncated = true
		return
	}
	a.Tasks = append(a.Tasks, p)
}
