package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// find walks on along the tenants, and has those join the ring of which rows are due. It reports whether there are such; if not, whether
// this and the walks before it have come by all.
func (t *turning) find(ctx context.Context, conn *pgx.Conn) (found, complete bool, err error) {
	var after string
	var began time.Time
	resting, around, full := false, false, false
	t.turns.of(t.lane, func(r *ring, now time.Time) {
		after, began, r.walked, resting, around, full = r.after, now, now, now.Before(r.rests), r.round.wrapped, r.full
	})
	if resting {
		t.waits = t.waits || full
		return false, true, nil
	}
	w := walk{after: after}
	for most := walkSteps; ; {
		if err := t.eachTenant(ctx, conn, t.claim, t.want, w.after, most, w.met); err != nil {
			return false, false, err
		}
		w.ended = w.n < walkSteps && w.n-w.before < most
		if !w.ended || w.wrapped || around || after == "" {
			break
		}
		most, w.after, w.before, w.wrapped = walkSteps-w.n, "", w.n, true
	}
	t.turns.of(t.lane, func(r *ring, now time.Time) {
		found, complete = r.walkedBy(&w, after, now.Sub(began), now, t.short)
		t.waits = t.waits || complete && r.full
	})
	for _, name := range w.due {
		t.known[name] = true
	}
	return found, complete, nil
}

// walk is what a walk along the tenants has found.
type walk struct {
	after   string                   // the last one that it came by
	due     []string                 // of which rows are due, and may start
	full    map[string]time.Duration // of which rows are due, and their bounds let none start: until the rate lets one; 0: not known
	next    int64                    // in how many microseconds the first row is due of the others; 0: none waits
	n       int                      // how many tenants it came by
	before  int                      // of these, behind the place where it began
	wrapped bool                     // it went on from the first one
	ended   bool                     // it came by the last one
}

// met notes a tenant.
func (w *walk) met(name string, us, wait *int64) {
	w.n, w.after = w.n+1, name
	switch {
	case us == nil:
	case wait != nil:
		if w.full == nil {
			w.full = map[string]time.Duration{}
		}
		w.full[name] = microseconds(*wait)
	case *us <= 0:
		w.due = append(w.due, name)
	case w.next == 0 || *us < w.next:
		w.next = *us
	}
}

// eachTenant calls f for the tenants behind one, so many at most, of which rows of a want wait, with the time in microseconds until the
// first of them is due; nil: none may start. wait is not nil where the bounds of the tenant let none start that is due.
func (s *Store) eachTenant(
	ctx context.Context, conn *pgx.Conn, c store.Claim, w store.Want, after string, most int, f func(tenant string, us, wait *int64),
) error {
	q := s.sql.FindTenants
	if w.Phase == task.Rollback {
		q = s.sql.FindTenantsRollback
	}
	var name string
	var us, wait *int64
	return forEach(ctx, conn, []any{&name, &us, &wait}, func() error {
		f(name, us, wait)
		return nil
	}, q, arg("type", w.Type), arg("regions", regions(c.Region)), arg("after", after), arg("most", int32(most)))
}
