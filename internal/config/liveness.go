package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// minHeartbeat is the shortest silence that can be declared: a ping has to reach the agent, and the store, within it.
const minHeartbeat = 100 * time.Millisecond

// defaultMaxHeartbeat is the longest window that a ping may ask for unless a declaration says otherwise.
const defaultMaxHeartbeat = 10 * time.Minute

// liveness decodes what a block with that timeout says of pings: the longest silence (0: no pings are due), the longest
// window that a ping may ask for, and whether only progress counts.
func (b *block) liveness(timeout time.Duration) (heartbeat, longest time.Duration, progress bool) {
	heartbeat, declared := b.maybeLength("heartbeat", -1, minHeartbeat, maxTimeout)
	if !declared || heartbeat < 0 {
		for _, name := range []string{"max_heartbeat", "require_progress"} {
			if b.attr(name) != nil && b.sound("heartbeat") {
				b.invalid(name, b.at(name), errors.New("it requires a heartbeat: declare one, as in heartbeat = \"10s\""))
			}
		}
		return 0, 0, false
	}
	sound := b.sound("heartbeat")
	if heartbeat > timeout && b.sound("heartbeat", "timeout") {
		b.invalid("heartbeat", b.at("heartbeat"), fmt.Errorf(
			"longer than the timeout of %s, so it would have no effect: leave it out, or raise the timeout", task.FormatDuration(timeout)))
	}
	longest = b.length("max_heartbeat", max(min(timeout, defaultMaxHeartbeat), heartbeat), minHeartbeat, maxTimeout)
	if longest < heartbeat && sound && b.sound("max_heartbeat") {
		b.invalid("max_heartbeat", b.at("max_heartbeat"), fmt.Errorf("shorter than the heartbeat of %s", task.FormatDuration(heartbeat)))
	}
	return heartbeat, longest, b.boolean("require_progress", false)
}
