package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// NamedLease is a named lease as it is stored.
type NamedLease struct {
	store.NamedLease
	TTL        time.Duration
	ExpirySeen time.Time // when another that asked for it first found it expired; zero: not since its renewal
	Kept       int       // how many transactions of applications hold it
}

// lapsed reports whether a lease has expired, and not by a jump of the clock.
func (s *Store) lapsed(l *NamedLease, now time.Time) bool {
	if now.Before(l.ExpiresAt) {
		return false
	}
	doubt := store.LeaseDoubt
	for _, a := range s.agents {
		if !a.CalmAt.Before(l.ExpiresAt) && !a.CalmAt.After(now) {
			return true
		}
		doubt = max(doubt, a.PresentUntil.Sub(a.SeenAt))
	}
	return !l.ExpirySeen.IsZero() && !now.Before(l.ExpirySeen.Add(doubt))
}

// errNamedLeaseLost is the error for a holder that has lost its lease.
func errNamedLeaseLost(name string, f task.Fence) error {
	return fmt.Errorf("lease %q is not held with fence %d any more: stop, and commit nothing", name, f)
}

func badLeaseText(text string) bool {
	return text == "" || len(text) > store.MaxLeaseName || strings.Contains(text, "\x00")
}

// Acquire takes a named lease, at once, and returns its fence, or 0 where another holds it.
func (a *Application) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (task.Fence, error) {
	switch {
	case badLeaseText(name):
		return 0, errors.New("name must be 1 to 255 bytes")
	case badLeaseText(holder):
		return 0, errors.New("holder must be 1 to 255 bytes")
	case ttl < store.MinLeaseTTL || ttl > store.MaxLeaseTTL:
		return 0, errors.New("ttl must be 1 second to 1 day")
	}
	now, err := a.s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer a.s.mu.Unlock()
	l := a.s.named[name]
	a.remember(name, l)
	switch {
	case l == nil:
	case l.Holder == holder && !a.s.lapsed(l, now):
		l.TTL, l.ExpiresAt, l.ExpirySeen = ttl, now.Add(ttl), time.Time{}
		return l.Fence, nil
	case a.s.lapsed(l, now):
		if l.Kept > 0 {
			return 0, nil
		}
	default:
		if !now.Before(l.ExpiresAt) && (l.ExpirySeen.IsZero() || l.ExpirySeen.After(now)) {
			l.ExpirySeen = now
		}
		if most := now.Add(l.TTL); l.ExpiresAt.After(most) { // the clock was set back
			l.ExpiresAt = most
		}
		return 0, nil
	}
	a.s.lastLease++
	a.s.named[name] = &NamedLease{TTL: ttl, NamedLease: store.NamedLease{
		Name: name, Holder: holder, Fence: a.s.lastLease, AcquiredAt: now, ExpiresAt: now.Add(ttl),
	}}
	return a.s.lastLease, nil
}

// withLease runs f on a lease that is held with the fence.
func (a *Application) withLease(ctx context.Context, name string, f task.Fence, do func(l *NamedLease, now time.Time)) error {
	now, err := a.s.begin(ctx)
	if err != nil {
		return err
	}
	defer a.s.mu.Unlock()
	l := a.s.named[name]
	if l == nil || l.Fence != f || a.s.lapsed(l, now) {
		return errNamedLeaseLost(name, f)
	}
	do(l, now)
	return nil
}

// remember has Rollback restore a lease of that name as it is now; nil: there is none. The store is the caller's.
func (a *Application) remember(name string, l *NamedLease) {
	if l == nil {
		a.undo = append(a.undo, func() { delete(a.s.named, name) })
		return
	}
	was := *l
	a.undo = append(a.undo, func() {
		was.Kept = l.Kept // by this transaction, too, which frees it
		*l = was
		a.s.named[name] = l
	})
}

// RenewLease renews a lease for the time for which it was acquired.
func (a *Application) RenewLease(ctx context.Context, name string, f task.Fence) error {
	return a.withLease(ctx, name, f, func(l *NamedLease, now time.Time) {
		a.remember(name, l)
		l.ExpiresAt, l.ExpirySeen = now.Add(l.TTL), time.Time{}
	})
}

// ReleaseLease gives a lease up.
func (a *Application) ReleaseLease(ctx context.Context, name string, f task.Fence) error {
	return a.withLease(ctx, name, f, func(l *NamedLease, _ time.Time) {
		a.remember(name, l)
		delete(a.s.named, name)
	})
}

// HoldLease keeps a lease until the transaction ends.
func (a *Application) HoldLease(ctx context.Context, name string, f task.Fence) error {
	return a.withLease(ctx, name, f, func(l *NamedLease, _ time.Time) {
		l.Kept++
		a.leases = append(a.leases, l)
	})
}

// NamedLeases lists all named leases by name.
func (s *Store) NamedLeases() []store.NamedLease {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []store.NamedLease
	for _, l := range slices.SortedFunc(maps.Values(s.named), func(a, b *NamedLease) int { return cmp.Compare(a.Name, b.Name) }) {
		all = append(all, l.NamedLease)
	}
	return all
}

// forgetLeases removes what expired more than retention ago.
func (s *Store) forgetLeases(retention time.Duration, now time.Time) {
	for name, l := range s.named {
		if now.Sub(l.ExpiresAt) > retention && s.lapsed(l, now) && l.Kept == 0 {
			delete(s.named, name)
		}
	}
}
