package ops

import "errors"

// ErrNoTask says that there is no such task, live or finished. It may have been past its retention.
var ErrNoTask = errors.New("no such task")

// InputError is a mistake of whoever asked: the store refused the values. Its text names the value and the remedy.
type InputError struct{ Text string }

func (e *InputError) Error() string { return e.Text }
