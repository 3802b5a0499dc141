//go:build !linux

package sqlite

import "errors"

// watch exists only on Linux.
type watch struct{ wrote chan struct{} }

// watchLog fails: what is committed is found by looking.
func watchLog(string, func() bool) (*watch, error) { return nil, errors.ErrUnsupported }

func (*watch) close() error { return nil }
