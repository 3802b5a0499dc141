//go:build race

package poll_test

// busySlots is how many attempts TestFullAgentStillReaps has running. The race detector's runtime breaks down
// ("ThreadSanitizer: CHECK failed", or a SIGSEGV) with some thousand goroutines at once, and rarely with fewer; test/all also
// runs the test without it.
const busySlots = 100
