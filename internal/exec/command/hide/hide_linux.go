// Package hide keeps the memory and the environment of this process from others of the same user.
package hide

import "golang.org/x/sys/unix"

// Hide makes the process one that others of its user cannot look into (PR_SET_DUMPABLE in prctl(2)): not at its
// environment, its memory or its files in /proc, nor by ptrace(2). Root still can. It dumps no core from now on, and the
// files below /proc/self belong to root: one that only its owner may open is closed to the process itself then. What it
// starts is hidden until its exec, and not after.
func Hide() {
	// There is nothing to be done about an error, and none to expect: the argument is valid.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
