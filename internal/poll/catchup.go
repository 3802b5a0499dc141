package poll

import (
	"context"
	"sync/atomic"
	"time"
)

// An agent that comes back after an outage, of its own, of the store or of a target, may find very many rows that are overdue. It says so, how
// far it has come, and when it is over, so that who looks at it knows that it is well, and for how long it will be late.
const (
	catchLate  = 30 * time.Second // a row that starts later than this after it was due is overdue
	catchGap   = 10 * time.Second // nothing has started for so long before the first
	catchLeast = 100              // due rows, below which there is nothing to say
	catchLook  = 10 * time.Second // between looks at how many are left
	catchShare = 50               // and this many times as long as a look takes: to count many rows costs the store
	catchSay   = time.Minute      // between lines in the log, and twice as long after each
	catchMost  = time.Hour        // the longest pause between two
	caughtUp   = 5 * time.Second  // what starts so soon after it was due is on time
)

// catchUp follows a backlog. started is called with each attempt and costs next to nothing; all else is done by run.
type catchUp struct {
	e      *Engine
	begins chan struct{} // has an element when an overdue row has started after a gap
	last   atomic.Int64  // local time of the last start, in ns; 0: none yet
	late   atomic.Int64  // by how much it was late, in ns
	n      atomic.Int64  // starts
}

func newCatchUp(e *Engine) *catchUp { return &catchUp{e: e, begins: make(chan struct{}, 1)} }

// started notes the start of an attempt, at a local time and so long after it was due. It never blocks.
func (c *catchUp) started(now, late time.Duration) {
	before := time.Duration(c.last.Swap(int64(now)))
	c.late.Store(int64(late))
	c.n.Add(1)
	if late < catchLate || before != 0 && now-before < catchGap {
		return
	}
	select {
	case c.begins <- struct{}{}:
	default:
	}
}

// run follows one backlog after the other, until ctx ends.
func (c *catchUp) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.begins:
		}
		c.follow(ctx)
		select { // what has begun meanwhile was part of it
		case <-c.begins:
		default:
		}
	}
}

// follow follows a backlog to its end, if it is one.
func (c *catchUp) follow(ctx context.Context) {
	left := c.e.o.Metrics.CatchUpRows
	defer left.Set(0)
	began, due := c.e.o.Clock.Now(), c.due(ctx)
	if due < catchLeast {
		return
	}
	first, said, saidAt, every := c.n.Load(), due, began, catchSay
	c.e.log.Info("catching up: rows are overdue", "due", due, "late", time.Duration(c.late.Load()).Round(time.Second))
	for rest := catchLook; ; {
		left.Set(float64(due))
		if !pause(ctx, nil, rest) {
			return
		}
		asked := c.e.o.Clock.Now()
		n := c.due(ctx)
		now := c.e.o.Clock.Now()
		// It takes longer than a call may only where the agent stood still.
		rest = max(catchLook, catchShare*min(now-asked, callTimeout))
		if n < 0 { // the store cannot say; what is logged is its outage
			continue
		}
		if due = n; due == 0 || time.Duration(c.late.Load()) < caughtUp {
			c.e.log.Info("caught up", "took", (now - began).Round(time.Second), "started", c.n.Load()-first)
			return
		}
		if now-saidAt < every {
			continue
		}
		args := []any{"due", due, "for", (now - began).Round(time.Second), "started", c.n.Load() - first}
		if in := timeLeft(said, due, now-saidAt); in > 0 {
			args = append(args, "left", in)
		}
		c.e.log.Info("catching up", args...)
		said, saidAt, every = due, now, min(2*every, catchMost)
	}
}

// timeLeft returns how long it takes until no row is due, as the number went down within a time; 0: it did not.
func timeLeft(before, due int64, within time.Duration) time.Duration {
	if due >= before {
		return 0
	}
	return time.Duration(float64(within) * float64(due) / float64(before-due)).Round(time.Second)
}

// due returns how many rows are due of the types that the agent declares; negative: the store cannot say.
func (c *catchUp) due(ctx context.Context) (n int64) {
	err := c.e.call(ctx, "stats", func(ctx context.Context) error {
		stats, err := c.e.o.Store.Stats(ctx)
		n = 0
		for _, typ := range c.e.declarations().Declarations.Types {
			for _, name := range typ.Names() {
				n += stats.Due[name]
			}
		}
		return err
	})
	if err != nil {
		return -1
	}
	return n
}
