package poll_test

import "os"

// sized returns how many rows a test of many has: ordinary, which is enough to show the fault, or full where the tests run
// at full length.
func sized(ordinary, full int) int {
	if os.Getenv("LEASEHOLD_TEST_FULL") != "" {
		return full
	}
	return ordinary
}
