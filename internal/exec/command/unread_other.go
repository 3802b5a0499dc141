//go:build !linux

package command

// unread cannot be told here: only the reading end knows it.
func unread(int) (n int, ok bool) { return 0, false }
