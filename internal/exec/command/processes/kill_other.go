//go:build !linux

package processes

// Marks reports whether processes can be found by their mark here: other systems do not show the environment of a
// process, or not reliably.
const Marks = false

// Kill finds nothing here.
func Kill(Run, func(number uint64) bool) (found map[uint64]int, err error) { return nil, nil }

// Halfway finds nothing here.
func Halfway([]byte) bool { return false }

// Arguments are not to be had here.
func Arguments(int) []byte { return nil }
