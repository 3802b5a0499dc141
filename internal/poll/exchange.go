package poll

import (
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// The place that an attempt leaves in the limit of its type is taken by the next row in the same call to the store that settles it (Exchange):
// so it is idle for one call, not for a settlement and a claim that has to wait for its turn with the limit. The loop makes these calls
// itself, since claims must not overlap. An outcome waits for it for no longer than exchangeFor; then it is settled without it.
//
// What an exchange gets is no more than what it has settled, so a lane asks for more places now and then all the same, with an ordinary claim.
const exchangeFor = 20 * time.Millisecond

// exchange settles the outcomes that leave places in limits, and claims rows in these.
func (e *Engine) exchange(calls context.Context) {
	ends := e.settle.takeLeaving(min(e.size.rows, maxSettle))
	if len(ends) == 0 {
		return
	}
	places := map[string]int{}
	for _, u := range ends {
		places[e.typeOf(u)]++
	}
	asks, leaves := e.slots.exchanges(places, e.room)
	n := 0
	for _, a := range asks {
		n += a.n
	}
	if n == 0 && len(leaves) == 0 || !e.keeper.Fit() || e.settle.room() < n {
		e.settle.settleAlone(ends)
		return
	}
	rows := make([]store.Settlement, len(ends))
	for i, u := range ends {
		rows[i] = u.Settlement
	}
	r := e.newClaim(asks)
	r.claim.Leaves = leaves
	var tasks []task.Task
	var answers []store.Answer
	err := e.ask(calls, "exchange", func(ctx context.Context) (err error) {
		tasks, answers, err = e.o.Store.Exchange(ctx, r.claim, rows)
		return err
	})
	if err != nil {
		r.rows = max(r.rows, len(ends))
		e.failed(r)
		e.settle.settleAlone(ends)
		return
	}
	short := e.exchanged(r, asks, tasks) //nolint:contextcheck // leases outlive the call that claimed them
	e.settle.putBack(e.settle.answeredAll(ends, answers, short), false)
}

// exchanged starts what an exchange has claimed. It returns the types of the lanes that got less than they asked for: an ordinary claim finds
// out why.
func (e *Engine) exchanged(r claiming, asks []ask, tasks []task.Task) (short map[string][]string) {
	e.read(r, tasks)
	each := countEach(asks, tasks)
	short = map[string][]string{}
	e.slots.mu.Lock()
	defer e.slots.mu.Unlock()
	for i, a := range asks {
		a.lane.reused, a.source.full = a.lane.reused || each[i] > 0, each[i] == a.n
		a.lane.wanted = r.claim.Limited[a.source.name].Wanted
		if each[i] < a.n {
			short[a.lane.typ.Name] = nil
		}
	}
	return short
}

// leaves reports whether an outcome leaves a place in a limit that the next row of its type may take at once.
func (e *Engine) leaves(u *unsettled) bool {
	if u.lease == nil || u.reaped != nil || u.row().Tenant != "" || u.Next.State != task.StateSucceeded || u.Next.AfterLease ||
		u.InHistory() || !u.Report.Empty() {
		return false // some take longer to settle, and the next row would wait for that
	}
	if row := u.row(); row.Batch != 0 || row.Key != "" || row.Lock != "" || row.Sequence != "" {
		return false // others may be waiting for its end, and come first
	}
	d := e.declarations().byName[u.row().Type]
	if d == nil || d.typ.Limit == 0 {
		return false
	}
	e.slots.mu.Lock()
	defer e.slots.mu.Unlock()
	l := e.slots.of[d.typ.Name]
	return l != nil && l.mayExchange() && !e.slots.closed
}

// mayExchange reports whether places in the lane's limit may be taken by exchange: rows wait, for it or for slots, and it has no rate.
func (l *lane) mayExchange() bool {
	waits := l.until != 0 || slices.ContainsFunc(l.sources, func(src *source) bool { return src.full })
	return waits && l.current && l.limited && l.typ.Rate == 0 && l.per == 1
}

// exchanges returns what to claim in the places that outcomes leave, so many of each type; and the types of which
// one is left to others.
func (s *slots) exchanges(places map[string]int, room func(*lane, task.Phase) int) (asks []ask, leaves []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free, without := s.workers-s.running-s.filled(), s.without
	for i := range s.lanes {
		l := s.lanes[(s.turn+i)%len(s.lanes)]
		n := min(places[l.typ.Name], l.allow-l.running-len(l.queue))
		if n <= 0 || !l.mayExchange() {
			continue
		}
		if l.yield(s.clock.Now()) {
			n--
			leaves = append(leaves, l.typ.Name)
		}
		asks = append(asks, l.share(n, room)...)
		if l.running == 0 {
			without--
		}
	}
	if without > 0 { // the last free slot stays free for a lane of which nothing runs
		free--
	}
	asks = divide(asks, max(free, 0))
	for i := range asks {
		a := &asks[i]
		a.lane.turn = slices.Index(a.lane.sources, a.source) + 1
		a.want = a.lane.want(a.source, a.n)
	}
	return asks, leaves
}

// yield reports whether the lane leaves a place to others now. It asks for no more places meanwhile.
func (l *lane) yield(now time.Duration) bool {
	if !l.wanted || now-l.yielded < yieldEvery {
		return false
	}
	l.wanted, l.yielded = false, now
	l.until = max(l.until, now+heldMost)
	return true
}

// takeLeaving removes the outcomes that wait for an exchange, at most so many.
func (s *settler) takeLeaving(most int) (ends []*unsettled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, bytes := 0, 0
	for n < min(len(s.leaving), most) && (n == 0 || bytes < maxBytes/4) {
		bytes += s.leaving[n].bytes()
		n++
	}
	ends = s.leaving[:n:n]
	s.leaving = s.leaving[n:]
	if len(s.leaving) == 0 {
		s.leaving = nil
	} else {
		s.e.slots.signal()
	}
	return ends
}

// settleAlone has outcomes settled without an exchange.
func (s *settler) settleAlone(ends []*unsettled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, ends...)
	s.notify()
}

// rest waits until there may be outcomes to settle; false: ctx has ended.
func (s *settler) rest(ctx context.Context) bool {
	s.mu.Lock()
	var late <-chan time.Time
	if len(s.leaving) > 0 {
		in := s.left + exchangeFor - s.e.o.Clock.Now()
		if in <= 0 {
			s.mu.Unlock()
			return ctx.Err() == nil
		}
		timer := time.NewTimer(in)
		defer timer.Stop()
		late = timer.C
	}
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return false
	case <-s.more:
	case <-late:
	}
	return true
}
