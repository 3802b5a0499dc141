//go:build !linux

// Package cgroup gives each attempt a control group of its own on Linux. Elsewhere there are none.
package cgroup

// Tree is an agent's cgroups: none.
type Tree struct{}

// Group is the cgroup of one attempt at a time: none.
type Group struct{}

// NewTree is nil.
func NewTree() *Tree { return nil }

// Path is "".
func (*Tree) Path() string { return "" }

// Take gives none.
func (*Tree) Take() (*Group, error) { return nil, nil } //nolint:nilnil // a nil Group is none

// Retire has nothing to take out of use.
func (*Tree) Retire() {}

// Give takes none.
func (*Tree) Give(*Group) {}

// Drop has nothing to give up.
func (*Tree) Drop(*Group) (gone bool) { return false }

// Close has nothing to remove.
func (*Tree) Close() {}

// Number is 0.
func (*Group) Number() int { return 0 }

// FD is of no use.
func (*Group) FD() int { return -1 }

// Empty is true.
func (*Group) Empty() bool { return true }

// Kill kills nothing.
func (*Group) Kill() {}

// Spoil has no meaning.
func (*Group) Spoil() {}

// KillIn finds nothing.
func KillIn(string, int) (empty bool) { return true }

// KillAll finds nothing.
func KillAll(string) (empty bool) { return true }

// Remove removes nothing.
func Remove(string) {}
