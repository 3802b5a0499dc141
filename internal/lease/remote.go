package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Ping handles a ping for any row, by id and fence. Pings for rows that this session holds are answered from memory; the
// others go to the store, many at a time. Answer is Busy if the store cannot answer now.
func (k *Keeper) Ping(ctx context.Context, id task.ID, f task.Fence, p store.Ping) (store.PingReply, error) {
	if l := k.held(id, f); l != nil && !l.lapsed() {
		k.noting.RLock()
		defer k.noting.RUnlock()
		switch {
		case !k.ending:
			return l.Ping(p), nil
		case l.unwritten(): // what it has said before would overwrite this
			return store.PingReply{Answer: store.Busy}, errEnding
		}
	}
	if k.remote == nil {
		return store.PingReply{}, nil
	}
	reply, err := k.batched.ping(ctx, k, store.RemotePing{ID: id, Fence: f, Ping: p})
	if err != nil {
		return store.PingReply{Answer: store.Busy}, err
	}
	k.count("", reply)
	return reply, nil
}

// count counts a ping. The type of another session's row is not known.
func (k *Keeper) count(typ string, p store.PingReply) {
	if p.Answer == store.Applied {
		k.metrics.Pings.WithLabelValues(typ, fmt.Sprint(p.Counted)).Inc()
	}
}

// Complete ends a row as succeeded at its task's request: Applied, Ended if the task has completed it before, Lost or Busy.
func (k *Keeper) Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) (store.Answer, error) {
	if k.remote == nil {
		return store.Lost, nil
	}
	a, err := k.remote.Complete(ctx, id, f, result)
	if err != nil {
		k.failed(ctx, "complete")
		return store.Busy, fmt.Errorf("complete task %d: %w", id, err)
	}
	if l := k.held(id, f); l != nil && (a == store.Applied || a == store.Ended) {
		k.Ended(l)
	}
	return a, nil
}

// Ended records that a lease's task has completed itself: there is nothing left to settle.
func (k *Keeper) Ended(l *Lease) {
	l.complete()
	if l.Detached() {
		k.Release(l)
	}
}

// HasFailed records that a lease's task has reported its failure, which is settled.
func (k *Keeper) HasFailed(l *Lease) {
	l.fail()
	if l.Detached() {
		k.Release(l)
	}
}

// HeldBy returns the lease on that row with that fence; nil if the session has none.
func (k *Keeper) HeldBy(id task.ID, f task.Fence) *Lease { return k.held(id, f) }

// lapsed reports whether the window of a detached lease is over as far as the agent knows, so that only the store can answer.
func (l *Lease) lapsed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.detached && l.clock.Now() >= l.end
}

var errEnding = errors.New("the agent is ending")

// Limits of pings for what others hold.
const (
	remoteEvery = 100 * time.Millisecond // between two calls to the store
	maxRemote   = 2000                   // pings that wait for a reply
)

// batched collects pings for rows of other sessions: one call to the store at a time, remoteEvery apart.
type batched struct {
	mu      sync.Mutex
	waiting map[remoteKey]*remotePing
	busy    bool
	closed  bool
	last    time.Time
}

type remoteKey struct {
	id    task.ID
	fence task.Fence
}

type remotePing struct {
	ping  store.RemotePing
	done  chan struct{}
	reply store.PingReply
	err   error
}

// ping waits for the store's reply. Pings of the same attempt that wait at the same time are merged.
func (b *batched) ping(ctx context.Context, k *Keeper, p store.RemotePing) (store.PingReply, error) {
	key := remoteKey{p.ID, p.Fence}
	b.mu.Lock()
	if b.waiting == nil {
		b.waiting = make(map[remoteKey]*remotePing)
	}
	w := b.waiting[key]
	if b.closed {
		b.mu.Unlock()
		return store.PingReply{}, errEnding
	}
	if w == nil {
		if len(b.waiting) >= maxRemote {
			b.mu.Unlock()
			return store.PingReply{}, fmt.Errorf("%d pings wait for the store already", maxRemote)
		}
		w = &remotePing{ping: p, done: make(chan struct{})}
		b.waiting[key] = w
	} else {
		w.ping.Ping = p.Ping.Over(w.ping.Ping)
	}
	if !b.busy {
		b.busy = true
		k.aside.Go(func() { b.run(k) }) //nolint:contextcheck // it answers many, whose contexts end when they like
	}
	b.mu.Unlock()
	select {
	case <-w.done:
		return w.reply, w.err
	case <-ctx.Done():
		return store.PingReply{}, context.Cause(ctx)
	}
}

// close takes no more pings, and waits for the answers to those that it has.
func (b *batched) close(k *Keeper) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	k.aside.Wait()
}

// run asks the store until nothing waits.
func (b *batched) run(k *Keeper) {
	for {
		b.mu.Lock()
		since := time.Since(b.last)
		b.mu.Unlock()
		if since < remoteEvery {
			timer := time.NewTimer(remoteEvery - since)
			<-timer.C
		}
		b.mu.Lock()
		if len(b.waiting) == 0 {
			b.busy = false
			b.mu.Unlock()
			return
		}
		batch := make([]*remotePing, 0, len(b.waiting))
		rows := make([]store.RemotePing, 0, len(b.waiting))
		for _, w := range b.waiting {
			batch, rows = append(batch, w), append(rows, w.ping)
		}
		clear(b.waiting)
		b.last = time.Now()
		b.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), Period(k.agent.Presence))
		replies, err := k.remote.TakePings(ctx, rows)
		cancel()
		if err != nil {
			k.metrics.StoreErrors.WithLabelValues("pings").Inc()
		}
		for i, w := range batch {
			if err == nil {
				w.reply = replies[i]
			} else {
				w.err = fmt.Errorf("ping: %w", err)
			}
			close(w.done)
		}
	}
}
