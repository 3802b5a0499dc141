package chunk

import (
	"errors"
	"fmt"
)

// ErrSlow says that a statement reached its time limit.
var ErrSlow = errors.New("the statement took too long")

// InvalidError says why a table cannot be cut as it is declared. Trying again does not help before somebody changes something.
type InvalidError struct {
	Table, Key string
	Problem    string // what is wrong
	Remedy     string // what to do about it
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("cut table %s by key %s: %s: %s", e.Table, e.Key, e.Problem, e.Remedy)
}
