package lease

import (
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// The store's clock can jump and return between two heartbeats of a session, which notices nothing. Another session that has
// written its heartbeat in between looks expired afterwards, and is alive. So a session also counts by its own clock for how
// long it has seen no new heartbeat of each other session.

// watched is the last heartbeat of another session, and the local time since which the session knows of it.
type watched struct {
	store.Sighting
	since time.Duration
}

// Watch takes the heartbeats of all other sessions that hold rows, as the store has just listed them.
func (k *Keeper) Watch(list []store.Sighting) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now() // after the store has read them: so each is as old as that, at least
	before := k.others
	k.others = make(map[task.Session]watched, len(list))
	for _, s := range list {
		w, ok := before[s.Session]
		if !ok || !w.SeenAt.Equal(s.SeenAt) {
			w = watched{since: now}
		}
		w.Sighting = s
		k.others[s.Session] = w
	}
}

// silent returns the sessions that have been silent for their whole TTL at the local time now. k.mu is held.
func (k *Keeper) silent(now time.Duration) (list []store.Sighting) {
	for _, w := range k.others {
		if now-w.since >= w.Presence {
			list = append(list, w.Sighting)
		}
	}
	return list
}
