//go:build !faults

package fault

// Built reports whether this binary can be broken on purpose.
const Built = false

// Off reports whether a safeguard is switched off.
func Off(Safeguard) bool { return false }

// Number is the number of a claim: the one after the session's last.
func Number(next int64) int64 { return next }

// Point is a place in the code at which the process may be killed.
func Point(string) {}
