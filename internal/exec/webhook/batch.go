package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// batch is one request with several attempts, each of which ends on its own: by its line of the response, by its lease, or with the
// whole request. It is a hold: its context ends when the last attempt has ended before the response has.
type batch struct {
	typ    *task.Type
	target *task.Webhook
	log    *slog.Logger
	ended  func(i int, o task.Outcome)

	ctx      context.Context
	cancel   context.CancelFunc
	watching sync.WaitGroup // what reacts to the ends of leases, and the ends of graces

	rows []*entry
	byID map[task.ID]*entry
	body []byte // the message's first one, of which entries know their parts

	mu   sync.Mutex // guards what follows, and the entries
	open int        // entries that have not ended
	many bool       // the message has more than one
	sent bool       // the message may have left
	old  bool       // an entry of the message has ended
}

// entry is one attempt of a batch.
type entry struct {
	lease    *lease.Lease
	i        int // its place for the caller
	from, to int // its element in the body
	unwatch  func() bool

	out       bool // it is not in the message: it had ended
	over      bool // it has ended
	cancelled bool // it is to stop, and has its grace
	grace     *time.Timer
	refused   string // what was wrong with its last line that was refused; "" for none
}

// RunMany runs attempts of one type and phase in one request, whose target is w, with a Batch. It calls ended once for each, with its
// place in ls, as soon as it has ended, from any goroutine and from several at once. When it returns all have ended, and the response
// has been read to its end or the connection is closed.
func (c *Client) RunMany(ls []*lease.Lease, t *task.Type, w *task.Webhook, ended func(i int, o task.Outcome)) {
	b := &batch{typ: t, target: w, log: c.log, ended: ended, byID: make(map[task.ID]*entry, len(ls))}
	m := b.message(c, ls)
	if m == nil {
		return
	}
	signer, err := newSigner(w.Secrets)
	if err != nil { // the declaration's fault, not the rows'
		b.endAll(task.Outcome{Verdict: task.Undelivered, Error: t.Source + ": " + err.Error(), NeverStarted: true})
		return
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	defer b.watching.Wait()
	defer b.cancel()
	for _, x := range b.rows {
		x.lease.Start()
	}
	b.watch()
	d := &delivery{client: c, hold: b, batch: b, message: m, signer: signer}
	resp, err := d.send(b.ctx)
	if err != nil {
		b.endAll(b.whole(d.unanswered(err)))
		return
	}
	defer func() { _ = resp.Body.Close() }()
	b.read(resp)
}

// Now is the store's clock.
func (b *batch) Now() time.Time { return b.rows[0].lease.Now() }

// Context ends when nothing of the request matters any more.
func (b *batch) Context() context.Context { return b.ctx }

// watch has each attempt end when its lease does.
func (b *batch) watch() {
	for _, x := range b.rows {
		b.watching.Add(1)
		b.mu.Lock()
		x.unwatch = context.AfterFunc(x.lease.Context(), func() {
			defer b.watching.Done()
			b.stop(x)
		})
		b.mu.Unlock()
	}
}

// stop ends an attempt whose lease has ended. One that is cancelled while its request is under way has its grace first, in which its
// pings are told to stop.
func (b *batch) stop(x *entry) {
	cause := x.lease.Cause()
	b.mu.Lock()
	if x.over {
		b.mu.Unlock()
		return
	}
	if b.sent && cause != nil && cause.Verdict == task.Cancelled {
		x.cancelled = true
		b.watching.Add(1)
		x.grace = time.AfterFunc(min(b.target.CancelGrace, x.lease.KillIn()), func() {
			defer b.watching.Done()
			b.cut(x, stopped(x.lease, false))
		})
		b.mu.Unlock()
		return
	}
	o := stopped(x.lease, !b.sent)
	last := b.over(x)
	b.mu.Unlock()
	b.tell(x, o, last)
}

// cut ends an attempt without a line of the response.
func (b *batch) cut(x *entry, o task.Outcome) {
	b.mu.Lock()
	if x.over {
		b.mu.Unlock()
		return
	}
	last := b.over(x)
	b.mu.Unlock()
	b.tell(x, o, last)
}

// tell reports the end of an attempt, and ends the request where it was the last one: nothing more that comes matters.
func (b *batch) tell(x *entry, o task.Outcome, last bool) {
	b.ended(x.i, o)
	if last {
		b.cancel()
	}
}

// end ends an attempt with what the response says. It returns false if the attempt had ended before.
func (b *batch) end(x *entry, o task.Outcome) bool {
	b.mu.Lock()
	if x.over {
		b.mu.Unlock()
		return false
	}
	cause := x.lease.Cause() // stop may be about to note it
	if x.cancelled || b.sent && cause != nil && cause.Verdict == task.Cancelled {
		o = refusal(x.lease, o)
	}
	b.over(x)
	b.mu.Unlock()
	b.ended(x.i, o)
	return true
}

// over marks an attempt as ended, and reports whether it was the last. b.mu is held.
func (b *batch) over(x *entry) (last bool) {
	x.over = true
	b.old = true // whether it has left, too: it may turn out that nothing has
	b.open--
	if x.unwatch != nil && x.unwatch() {
		b.watching.Done()
	}
	if x.grace != nil && x.grace.Stop() {
		b.watching.Done()
	}
	return b.open == 0
}

// refusal is the outcome of an attempt that was cancelled before its end came: what that says does not count, but nothing of
// the attempt is at work any more.
func refusal(l *lease.Lease, o task.Outcome) task.Outcome {
	cancelled := l.Cause().Outcome()
	cancelled.EndUnknown = o.EndUnknown
	if o.Error != "" {
		cancelled.Error = fmt.Sprintf("%s (%s)", cancelled.Error, o.Error)
	}
	return cancelled
}

// endAll ends the attempts that have not ended with one outcome. That the target is unavailable is said once.
func (b *batch) endAll(o task.Outcome) {
	for _, x := range b.rows {
		if b.end(x, o) {
			o.Unavailable = false
		}
	}
}

// whole returns what the failure of the whole request means for one attempt in it: if it was not alone, it is unknown which of them
// is to blame, so it is released, and goes with fewer others next time.
func (b *batch) whole(o task.Outcome) task.Outcome {
	if !b.many || o.NeverStarted || b.isOver() || fault.Off(fault.Shared) {
		return o
	}
	n, left := b.count()
	b.log.Warn("a request with several tasks failed: those that have not ended are released, and go with fewer others next time",
		"type", b.typ.Name, "phase", b.rows[0].lease.Phase(), "tasks", n, "released", left, "error", o.Error)
	return task.Outcome{
		Verdict: task.Drained, Shared: true, EndUnknown: o.EndUnknown,
		Error: fmt.Sprintf("the request failed, which had %d tasks: %s", n, o.Error),
	}
}

// count returns how many attempts the message has, and how many of them have not ended.
func (b *batch) count() (n, left int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.rows {
		if !x.out {
			n++
		}
	}
	return n, b.open
}

// isOver reports whether all attempts have ended.
func (b *batch) isOver() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open == 0
}

// commit reports whether the message may leave now: no attempt in it has ended. From here on an attempt that is stopped may have
// started.
func (b *batch) commit() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.old {
		return false
	}
	b.sent = true
	return true
}
