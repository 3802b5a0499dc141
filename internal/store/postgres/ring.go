package postgres

import (
	"slices"
	"time"
)

// ring is what an agent knows of the tenants of one lane: those of which rows may be due, and whose turn it is. Rows without a tenant are
// one among them, "". A tenant leaves the ring when a claim finds nothing more of it, and comes in when a walk along the index, which
// goes on where the last one has ended, finds rows of it that are due (find_tenants).
type ring struct {
	tenants []string // in order
	at      string   // whose turn it is, or that of the next one behind it
	credit  int      // rows that are left of the turn; 0: it begins

	after  string        // where the next walk begins: behind this tenant
	round  round         // of walks that have found nothing due
	rests  time.Time     // no walk before then, since a round of many tenants has found nothing; zero: none
	next   time.Time     // when the first row is due that the last such round has come by; zero: none waits
	walked time.Time     // when the last one began
	every  time.Duration // how often one is due while the known tenants have rows
	seen   time.Time     // when rows with a tenant were last known to wait

	full bool                 // the last round has come by tenants with due rows whose bounds let none start
	held map[string]time.Time // such tenants: when their rates let one start; zero: once one of their attempts has ended
	soon time.Time            // the first of these times; zero: none is known
}

const (
	ringMost  = 16384 // tenants that are remembered
	walkSteps = 256   // tenants of one walk
	walkShare = 20    // a walk may take a 20th of the time
	restShare = 10    // and a round that has found nothing, a tenth
	walkLeast = 5 * time.Millisecond
	walkMost  = 5 * time.Second
	ringLasts = 10 * time.Minute // without any row with a tenant
)

// round is a number of walks, one after another, that have found nothing due.
type round struct {
	from    string // behind this tenant the first of them began
	wrapped bool   // the last tenant was passed
	walks   int
	took    time.Duration
	next    time.Time // when the first row is due that they came by
	full    bool      // they came by tenants whose bounds let none start
}

// turn is how many rows of a tenant to claim.
type turn struct {
	tenant string
	n      int
}

// plan returns whose turns come next until they are n rows together, in order. weight returns how many rows a turn has.
func (r *ring) plan(n int, weight func(tenant string) int) []turn {
	if len(r.tenants) == 0 {
		return nil
	}
	var turns []turn
	places := make(map[string]int)
	i, there := slices.BinarySearch(r.tenants, r.at)
	if !there {
		r.credit = 0
	}
	for n > 0 {
		if i == len(r.tenants) {
			i = 0
		}
		t := r.tenants[i]
		if r.credit <= 0 {
			r.credit = weight(t)
		}
		k := min(n, r.credit)
		if p, has := places[t]; has {
			turns[p].n += k
		} else {
			places[t] = len(turns)
			turns = append(turns, turn{t, k})
		}
		n -= k
		r.credit -= k
		if len(r.tenants) == 1 {
			turns[0].n += n
			n = 0
		}
		r.at = t
		if r.credit <= 0 {
			i++
			r.at = t + "\x00" // the next one behind it
		}
	}
	return turns
}

// drop has tenants leave the ring.
func (r *ring) drop(short map[string]bool) {
	if len(short) > 0 {
		r.tenants = slices.DeleteFunc(r.tenants, func(t string) bool { return short[t] })
	}
}

// add has tenants join the ring. They are in order. Where they are more than it has room for, those leave whose turns come last.
func (r *ring) add(found []string) {
	if len(found) == 0 {
		return
	}
	all := make([]string, 0, len(r.tenants)+len(found))
	old := r.tenants
	for len(old) > 0 && len(found) > 0 {
		switch {
		case old[0] < found[0]:
			all, old = append(all, old[0]), old[1:]
		case old[0] > found[0]:
			all, found = append(all, found[0]), found[1:]
		default:
			old = old[1:]
		}
	}
	all = append(append(all, old...), found...)
	if more := len(all) - ringMost; more > 0 {
		i, _ := slices.BinarySearch(all, r.at) // those before it come last
		last := all[max(i-more, 0):i]
		all = append(append(make([]string, 0, len(all)), all[:max(i-more, 0)]...), all[i:]...)
		all = all[:len(all)-(more-len(last))]
	}
	r.tenants = all
}

// rewind has the turns come again that were planned and not taken, because there was no room: those from the first on of which fewer rows
// were taken.
func (r *ring) rewind(turns []turn, taken map[string]int) {
	for _, t := range turns {
		if left := t.n - taken[t.tenant]; left > 0 {
			r.at, r.credit = t.tenant, left
			return
		}
	}
}

// note adds a walk that found nothing.
func (o *round) note(w *walk, from string, took time.Duration, now time.Time) {
	if o.walks == 0 {
		o.from = from
	}
	o.walks++
	o.full = o.full || len(w.full) > 0
	o.took += took
	if in := time.Duration(w.next) * time.Microsecond; w.next > 0 && (o.next.IsZero() || now.Add(in).Before(o.next)) {
		o.next = now.Add(in)
	}
}

// walkedBy takes in what a walk has found that began behind a tenant and took so long. It reports whether rows of some tenant are due, but of
// those of which a claim has just found nothing more; and if not, whether this and the walks before it have come by all.
func (r *ring) walkedBy(w *walk, from string, took time.Duration, now time.Time, short map[string]bool) (found, complete bool) {
	r.every = min(max(walkLeast, walkShare*took), walkMost)
	r.after = w.after
	if w.ended {
		r.after = ""
	}
	if w.n > 0 {
		r.seen = now
	}
	due := slices.DeleteFunc(w.due, func(t string) bool { return short[t] })
	slices.Sort(due)
	due = slices.Compact(due)
	r.add(due)
	r.holdAll(w.full, due, now)
	if len(due) > 0 {
		r.round, r.rests = round{}, time.Time{}
		return true, false
	}
	r.round.note(w, from, took, now)
	atEnd := w.ended || w.wrapped
	complete = atEnd && r.round.from == "" || (r.round.wrapped || w.wrapped) && (w.ended || w.after >= r.round.from)
	r.round.wrapped = r.round.wrapped || atEnd
	if complete {
		r.next, r.full = r.round.next, r.round.full
		if r.round.walks > 1 {
			r.rests = now.Add(min(restShare*r.round.took, walkMost))
			if !r.next.IsZero() && r.next.Before(r.rests) {
				r.rests = r.next
			}
		}
		r.round = round{}
	}
	return false, complete
}
