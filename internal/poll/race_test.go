//go:build race

package poll_test

// busySlots is how many attempts TestFullAgentStillReaps has running. The race detector's runtime breaks down
// ("ThreadSanitizer: CHECK failed") with several thousand goroutines at once; test/all also runs the test without it.
const busySlots = 1_000
