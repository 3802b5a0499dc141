package poll_test

import "os"

// sized is how many rows a test of many has: as many as tell what it is about, or, where tests are to take the time that
// they can use, more.
func sized(ordinary, full int) int {
	if os.Getenv("LEASEHOLD_TEST_FULL") != "" {
		return full
	}
	return ordinary
}
