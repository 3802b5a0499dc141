package store

import "time"

// TenantLimit bounds the attempts of each tenant of a task type over all agents, as TypeLimit does those of the type. It is a part of the
// type's declaration, so it is in force with it. Types with the same limit share the bounds of a tenant, too.
type TenantLimit struct {
	Most  int     `json:"most"`  // attempts at once, of runs and rollbacks together; 0: no bound
	Rate  float64 `json:"rate"`  // starts in a second, of both together; 0: no bound
	Burst int     `json:"burst"` // how many of them at once; 0 without a rate
}

// Bounds reports whether it bounds anything.
func (l TenantLimit) Bounds() bool { return l.Most > 0 || l.Rate > 0 }

func (l TenantLimit) orNil() *TenantLimit {
	if !l.Bounds() {
		return nil
	}
	return &l
}

// Room returns how many rows of a tenant may start now, so many at most, of which running are counted already; and where it is the rate that
// lets none start, how long it is until one may.
func (l TenantLimit) Room(running int, b Bucket, most int) (n int, next time.Duration) {
	n = most
	if l.Most > 0 {
		n = min(n, max(l.Most-running, 0))
	}
	if l.Rate > 0 && n > 0 {
		tokens, in := b.Room(l.Rate, l.Burst)
		if n = min(n, tokens); n == 0 {
			next = in
		}
	}
	return n, next
}
