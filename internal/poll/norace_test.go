//go:build !race

package poll_test

// busySlots is how many attempts TestFullAgentStillReaps has running: so many that their outcomes alone could fill the
// memory set aside.
const busySlots = 9_900
