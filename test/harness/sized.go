package harness

import "os"

// Sized returns how many of something a test has: ordinary, which is enough to show what the test is about, or full where
// tests take the time that they can use (make test-all).
func Sized(ordinary, full int) int {
	if os.Getenv("LEASEHOLD_TEST_FULL") != "" {
		return full
	}
	return ordinary
}
