package webhook

import (
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Servers that close a connection after each answer without saying so.
const (
	closesAfter = 2           // so many connections in a row that ended after their first answer make a target one of these
	freshFor    = time.Minute // so long it gets a new connection for each request; then it is tried again
	maxTargets  = 1000        // that are remembered; declarations name few
)

// targets remembers which targets close connections after each answer. Where there is none, it costs one load.
type targets struct {
	known atomic.Int64 // how many there are in the map

	mu sync.Mutex
	of map[origin]*habit
}

// origin is what connections are shared by.
type origin struct{ scheme, host string }

// habit is what is known of one target.
type habit struct {
	closed int       // connections in a row that ended after their first answer
	until  time.Time // it is forgotten then
}

func originOf(u *url.URL) origin { return origin{u.Scheme, u.Host} }

// fresh reports whether each request to that URL's target is to have a new connection.
func (t *targets) fresh(u *url.URL) bool {
	if t.known.Load() == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.of[originOf(u)]
	if h == nil || h.closed < closesAfter {
		return false
	}
	if time.Now().After(h.until) {
		t.forget(originOf(u))
		return false
	}
	return true
}

// closed notes that the target has closed a connection after its first answer, without a word.
func (t *targets) closed(u *url.URL) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.of[originOf(u)]
	if h == nil {
		if len(t.of) >= maxTargets && !t.makeRoom(now) {
			return
		}
		if t.of == nil {
			t.of = make(map[origin]*habit)
		}
		h = &habit{}
		t.of[originOf(u)] = h
		t.known.Store(int64(len(t.of)))
	} else if now.After(h.until) {
		h.closed = 0
	}
	if h.closed < closesAfter {
		h.closed++
		h.until = now.Add(freshFor)
	}
}

// kept notes that the target has answered a second time on one connection.
func (t *targets) kept(u *url.URL) {
	if t.known.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// Once it is one of these, an answer on a connection of before is no news.
	if h := t.of[originOf(u)]; h != nil && h.closed < closesAfter {
		t.forget(originOf(u))
	}
}

// forget removes a target. t.mu is held.
func (t *targets) forget(which origin) {
	delete(t.of, which)
	t.known.Store(int64(len(t.of)))
}

// makeRoom removes what is out of date, and is false where nothing is. t.mu is held.
func (t *targets) makeRoom(now time.Time) bool {
	for which, h := range t.of {
		if now.After(h.until) {
			t.forget(which)
		}
	}
	return len(t.of) < maxTargets
}
