package lease

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// maxWrite is how many leases are written in one statement.
const maxWrite = 5000

// How long a write that failed, or met locked rows, waits before it is repeated: doubled each time, up to the last.
const (
	rewriteFirst = 50 * time.Millisecond
	rewriteLast  = time.Second
)

// writes are the leases whose tasks have reported something that the store does not know.
type writes struct {
	mu    sync.Mutex
	dirty map[*Lease]struct{}
	by    time.Duration // local time by which they are to be written
	more  chan struct{} // has an element when by came nearer
}

func newWrites() writes {
	return writes{dirty: make(map[*Lease]struct{}), more: make(chan struct{}, 1)}
}

// write implements warden.
func (k *Keeper) write(l *Lease, by time.Duration) {
	w := &k.writes
	w.mu.Lock()
	sooner := len(w.dirty) == 0 || by < w.by
	w.dirty[l] = struct{}{}
	if sooner {
		w.by = by
	}
	w.mu.Unlock()
	if sooner {
		select {
		case w.more <- struct{}{}:
		default:
		}
	}
}

// next returns the time until something is to be written; ok is false while there is nothing.
func (w *writes) next(now time.Duration) (in time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.by - now, len(w.dirty) > 0
}

// take removes at most maxWrite leases.
func (w *writes) take() []*Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*Lease, 0, min(len(w.dirty), maxWrite))
	for l := range w.dirty {
		if len(all) == maxWrite {
			break
		}
		all = append(all, l)
		delete(w.dirty, l)
	}
	return all
}

// putBack has leases written again by that time. It does not wake the loop, which calls next itself.
func (w *writes) putBack(leases []*Lease, by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.dirty) == 0 || by > w.by {
		w.by = by // those that came meanwhile wait, too: it is the same store
	}
	for _, l := range leases {
		w.dirty[l] = struct{}{}
	}
}

// writeLoop writes what tasks report, many leases at a time: once the first of them has waited for as long as it may, all
// are written.
func (k *Keeper) writeLoop(ctx context.Context) {
	wait := rewriteFirst
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		in, ok := k.writes.next(k.clock.Now())
		if !ok {
			select {
			case <-ctx.Done():
			case <-k.writes.more:
			}
			continue
		}
		if in > 0 {
			timer.Reset(in)
			select {
			case <-ctx.Done():
			case <-k.writes.more:
			case <-timer.C:
			}
			continue
		}
		if k.writeSome(ctx, wait) {
			wait = rewriteFirst
		} else {
			wait = min(2*wait, rewriteLast)
		}
	}
}

// Flush writes, once, what tasks have reported and has not been written yet. It is for the end: what they report from now on is written
// before it is answered.
func (k *Keeper) Flush(ctx context.Context) {
	k.noting.Lock() // no ping is being noted that would come too late
	k.ending = true
	k.noting.Unlock()
	for {
		if _, ok := k.writes.next(0); !ok || !k.writeSome(ctx, 0) {
			return
		}
	}
}

// writeSome writes one statement's worth. It returns false if some of it has to be written again, which happens after about
// again.
func (k *Keeper) writeSome(ctx context.Context, again time.Duration) bool {
	lost, all := k.renew(ctx, again)
	k.lose(ctx, lost)
	return all
}

// renew is writeSome but for the leases whose rows the session has lost. all: nothing has to be written again.
func (k *Keeper) renew(ctx context.Context, again time.Duration) (lost []*Lease, all bool) {
	k.writing.Lock() // a reply goes to its lease before the next request
	defer k.writing.Unlock()
	leases := k.writes.take()
	rows := make([]store.Renewal, 0, len(leases))
	writers := leases[:0]
	for _, l := range leases {
		if r, ok := l.outgoing(); ok {
			rows, writers = append(rows, r), append(writers, l)
		}
	}
	if len(rows) == 0 {
		return nil, true
	}
	call, cancel := context.WithTimeout(ctx, Period(k.agent.Presence))
	began := k.clock.Now()
	answers, err := k.store.Renew(call, k.Session(), rows)
	k.took("renew", began)
	cancel()
	var back []*Lease
	for i, l := range writers {
		a := store.Busy
		if err == nil {
			a = answers[i]
		}
		if l.answered(&rows[i], a) {
			back = append(back, l)
		}
		if a == store.Lost && !l.Over() && !l.settled() {
			lost = append(lost, l)
		}
	}
	if err != nil {
		k.metrics.StoreErrors.WithLabelValues("renew").Inc()
		if ctx.Err() == nil {
			k.metrics.Outage.Failed(k.log, "renew", err, "leases", len(rows))
		}
	} else {
		k.metrics.Outage.Worked(k.log, "renew")
	}
	if len(back) > 0 {
		k.writes.putBack(back, k.clock.Now()+again/2+rand.N(again+1))
	}
	return lost, len(back) == 0
}
