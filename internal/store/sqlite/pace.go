package sqlite

import (
	"context"
	"math/rand/v2"
	"time"
)

// SQLite has no queue for its lock: a connection that waits for it tries again now and then, by default every 100 ms. A
// process that begins its next transaction as soon as it has committed the last would keep the lock for seconds, and
// applications would fail with "database is locked". So a store that writes all the time leaves the lock free for a share
// of the time that it held it.
const (
	shareOthers = 3  // free for a third of the time held, while others write too
	shareAlone  = 20 // free for a twentieth: enough for others to get in, and then they are noticed
	othersFor   = 10 * time.Second
	leastPause  = time.Millisecond
	mostPause   = 50 * time.Millisecond
)

// pace keeps account of how long the lock was held and left free. Only the call whose turn it is uses it.
type pace struct {
	owed     time.Duration // how long the lock is to be left free
	released time.Time
	version  int64     // of the file, when the last transaction began
	others   time.Time // when it was last seen that others had written
}

// wait leaves the lock free for as long as is owed, at most mostPause. Time in which no call of this process wanted it counts.
func (p *pace) wait(ctx context.Context) error {
	p.owed -= time.Since(p.released)
	if p.owed < leastPause {
		p.owed = max(p.owed, 0)
		return nil
	}
	pause := time.NewTimer(min(p.owed, mostPause))
	defer pause.Stop()
	p.owed = 0
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-pause.C:
		return nil
	}
}

// begun notes the version of the file that a transaction found: another than the one before means that others write.
func (p *pace) begun(version int64) {
	if p.version != 0 && version != p.version {
		p.others = time.Now()
	}
	p.version = version
}

// ended notes that the lock was held since then.
func (p *pace) ended(since time.Time) {
	p.released = time.Now()
	share := time.Duration(shareAlone)
	if p.released.Sub(p.others) < othersFor {
		share = shareOthers
	}
	p.owed += p.released.Sub(since) / share
}

// lookAgain returns how long to wait before trying for the lock again: up to 5 ms at first, and less the longer a call has waited,
// so that mostly the one that has waited longest gets it.
func lookAgain(waited time.Duration) time.Duration {
	return 200*time.Microsecond + rand.N(5*time.Millisecond/(1+waited/(100*time.Millisecond)))
}
