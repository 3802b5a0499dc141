// Command holder is a process that takes named leases as docs/named-leases.md says, on either store, and logs what it knows: what
// it asked for, when, and the reply. It competes for each of its leases until it is killed.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold/leasehold/test/faults/effect"
	"github.com/leasehold/leasehold/test/faults/history"
)

// callTimeout bounds a call. It is longer than acquire waits for others, and shorter than a lost reply takes.
const callTimeout = 1500 * time.Millisecond

// main is called with a log, a store, a name of the process, a seed, and leases as NAME=TTL.
func main() {
	args := os.Args
	log, err := history.OpenLog(args[1])
	if err != nil {
		exit(err)
	}
	seed, err := strconv.ParseUint(args[4], 10, 64)
	if err != nil {
		exit(err)
	}
	var all sync.WaitGroup
	for i, lease := range args[5:] {
		name, text, _ := strings.Cut(lease, "=")
		ttl, err := time.ParseDuration(text)
		if err != nil {
			exit(err)
		}
		h := &holder{
			log: log, store: open(args[2]), process: args[3], name: name, ttl: ttl, r: rand.New(rand.NewPCG(seed, uint64(i))),
		}
		all.Go(h.run)
	}
	all.Wait()
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// holder competes for one lease.
type holder struct {
	log     *history.Log
	store   store
	process string
	renamed int // how often it has taken another name
	name    string
	ttl     time.Duration
	r       *rand.Rand

	fence int64
	asked time.Duration // when the last call that was granted began: it holds the lease for ttl from then
}

// store is what a holder asks. Errors are classified by answerOf.
type store interface {
	// acquire returns 0 where another has the lease.
	acquire(ctx context.Context, name, holder string, ttl time.Duration) (fence int64, err error)
	renew(ctx context.Context, name string, fence int64) error
	release(ctx context.Context, name string, fence int64) error
	// write makes an effect in one transaction with hold_lease, which stays open for a while.
	write(ctx context.Context, name, holder string, fence int64, open time.Duration) error
}

func (h *holder) run() {
	for {
		if h.acquire() {
			h.lead()
		}
		h.pause(100*time.Millisecond, 400*time.Millisecond)
	}
}

// lead holds the lease for a random time, and leaves it in one of the ways in which holders do.
func (h *holder) lead() {
	held := true
	for range 2 + h.r.IntN(12) {
		h.pause(h.ttl/20, h.ttl/6)
		if h.r.IntN(2) == 0 {
			held = h.write()
		}
		if held && history.Now()-h.asked > h.ttl/3 {
			held = h.renew()
		}
		if !held || history.Now()-h.asked > h.ttl && h.r.IntN(2) == 0 {
			break // else it goes on asking: it may still be the last one
		}
	}
	if held && h.r.IntN(4) > 0 {
		h.release()
	} else if held {
		h.pause(h.ttl/2, 2*h.ttl)
	}
	if h.r.IntN(2) == 0 { // a write that comes too late
		h.pause(0, h.ttl)
		h.write()
	}
}

// holder is its name for the store.
func (h *holder) holder() string { return h.process + "/" + strconv.Itoa(h.renamed) }

// acquire reports whether it has the lease. Where the end of a call is not known it will ask again.
func (h *holder) acquire() bool {
	fence := int64(0)
	answer := h.call(history.LeaseCall{Verb: history.Acquire, TTL: h.ttl}, func(ctx context.Context, c *history.LeaseCall) (err error) {
		if fence, err = h.store.acquire(ctx, h.name, h.holder(), h.ttl); err == nil && fence == 0 {
			c.Answer = history.Denied
		}
		c.Fence = fence
		return err
	})
	if answer == history.Granted {
		h.fence = fence
	}
	return answer == history.Granted
}

// renew reports whether the lease may be its own still.
func (h *holder) renew() bool {
	return h.call(history.LeaseCall{Verb: history.Renew, Fence: h.fence, TTL: h.ttl}, func(ctx context.Context, _ *history.LeaseCall) error {
		return h.store.renew(ctx, h.name, h.fence)
	}) != history.Lost
}

// write reports whether the lease may be its own still.
func (h *holder) write() bool {
	open := time.Duration(0)
	if h.r.IntN(4) == 0 {
		open = time.Duration(h.r.Int64N(int64(h.ttl / 4)))
	}
	return h.call(history.LeaseCall{Verb: history.Hold, Fence: h.fence}, func(ctx context.Context, _ *history.LeaseCall) error {
		return h.store.write(ctx, h.name, h.holder(), h.fence, open)
	}) != history.Lost
}

// release gives the lease up. A release of which it is not known whether it happened may happen later, also after the same holder
// has asked for the lease again and got the same fence. So the process takes another name.
func (h *holder) release() {
	now := history.Now()
	h.log.AddLeaseCall(history.LeaseCall{
		Asked: now, At: now, Holder: h.holder(), Name: h.name, Verb: history.Releasing, Fence: h.fence,
	})
	if h.call(history.LeaseCall{Verb: history.Release, Fence: h.fence}, func(ctx context.Context, _ *history.LeaseCall) error {
		return h.store.release(ctx, h.name, h.fence)
	}) == history.NoAnswer {
		h.renamed++
	}
}

// call makes a call and writes it down.
func (h *holder) call(c history.LeaseCall, do func(context.Context, *history.LeaseCall) error) history.LeaseAnswer {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	c.Name, c.Holder, c.Asked, c.Answer = h.name, h.holder(), history.Now(), history.Granted
	if err := do(ctx, &c); err != nil {
		c.Answer = answerOf(err)
	}
	c.At = history.Now()
	h.log.AddLeaseCall(c)
	if c.Answer == history.Granted && (c.Verb == history.Acquire || c.Verb == history.Renew) {
		h.asked = c.Asked
	}
	return c.Answer
}

func answerOf(err error) history.LeaseAnswer {
	switch {
	case effect.Raised(err):
		return history.Lost
	case effect.Answered(err):
		return history.Failed
	}
	return history.NoAnswer
}

// pause waits for a random time.
func (h *holder) pause(least, most time.Duration) {
	wait(context.Background(), least+time.Duration(h.r.Int64N(int64(most-least))))
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
