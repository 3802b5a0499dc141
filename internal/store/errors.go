package store

import "errors"

// ErrNoBatch says that there is no such batch. It may have been past its retention.
var ErrNoBatch = errors.New("no such batch")

// ErrNoTask says that there is no such task, live or finished. It may have been past its retention.
var ErrNoTask = errors.New("no such task")

// ErrNoAgent says that no session of that name or number is present.
var ErrNoAgent = errors.New("no such agent is present")

// ErrNoSchedule says that there is no schedule of this name.
var ErrNoSchedule = errors.New("no such schedule")

// ErrNoBulk says that there is no such bulk change. It may have been past its retention.
var ErrNoBulk = errors.New("no such bulk change")

// InputError is a mistake in a request: the store refuses the values. Its text names the value and the remedy.
type InputError struct{ Text string }

func (e *InputError) Error() string { return e.Text }

// RefusedError says why an operator's request is not allowed: the text names the obstacle and the remedy. Nothing has changed.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }
