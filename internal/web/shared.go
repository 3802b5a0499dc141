package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// What all who look at once cost an agent, and the store.
const (
	freshFor   = 1500 * time.Millisecond // a page is not read again before that
	mostAtOnce = 4                       // pages that are read at once
	mostKept   = 64                      // pages with an address of their own: of a few hundred KiB at most, as their lists and documents are bounded
	waitFor    = 3 * time.Second         // for time and a place to read
	// mostQuestions is how many questions of one page the store answers at once: half of the connections that an agent has by default.
	mostQuestions = 2
)

// errBroken is the error of a page that panicked, for those who waited for it.
var errBroken = errors.New("the page cannot be read: the agent's log has the reason")

// errBusy says that there was no place in time.
var errBusy = errors.New("the agent is busy with other pages: try again in a moment")

// shared has pages read once for all who ask for the same within a moment, and few at once.
type shared struct {
	places *semaphore.Weighted
	budget budget // of pages with an address of their own

	mu   sync.Mutex
	kept map[string]*reading
	own  int // of kept: those with an address of their own
}

// reading is a page that is being read, or was.
type reading struct {
	own     bool          // it has an address of its own
	waiting int           // who wait for it; guarded by shared.mu
	abandon func()        // ends its wait for a place
	done    chan struct{} // closed once the rest is set
	at      time.Time     // when it began to be read
	main    []byte
	view    *view
	err     error
}

// serves reports whether a page is for those who ask now, too: once it is there, only for a moment. shared.mu is held.
func (r *reading) serves(now time.Time) bool {
	select {
	case <-r.done:
		return now.Sub(r.at) < freshFor
	default:
		return r.waiting > 0 // else it may have been abandoned
	}
}

func newShared() *shared {
	return &shared{places: semaphore.NewWeighted(mostAtOnce), budget: newBudget(), kept: map[string]*reading{}}
}

// read returns what address shows: as it was read a moment ago, or by read. The one who reads does so for all that ask meanwhile. Addresses of
// their own are all but those of the main pages.
func (s *shared) read(ctx context.Context, address string, own bool, read func() (*view, []byte, error)) (*view, []byte, error) {
	s.mu.Lock()
	if r := s.kept[address]; r != nil && r.serves(time.Now()) {
		r.waiting++
		s.mu.Unlock()
		select {
		case <-r.done:
			return r.view, r.main, r.err
		case <-ctx.Done():
			s.leave(r)
			return nil, nil, ctx.Err()
		}
	}
	s.trim()
	wait, abandon := context.WithTimeout(context.WithoutCancel(ctx), waitFor)
	defer abandon()
	r := &reading{own: own, waiting: 1, abandon: abandon, done: make(chan struct{}), err: errBroken}
	s.keep(address, r)
	s.mu.Unlock()
	defer context.AfterFunc(ctx, func() { s.leave(r) })()
	defer s.end(address, r)
	r.err = s.inPlace(wait, own, func() error {
		var err error
		r.at = time.Now()
		r.view, r.main, err = read()
		return err
	})
	return r.view, r.main, r.err
}

// leave notes that one who waited for a page has gone. That is no reason not to read it for others; without any, it waits for no place.
func (s *shared) leave(r *reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		r.abandon()
	}
}

// end lets those who wait for a page have it, or its error. After that the next one tries again.
func (s *shared) end(address string, r *reading) {
	if r.err != nil {
		s.mu.Lock()
		if s.kept[address] == r {
			s.drop(address)
		}
		s.mu.Unlock()
	}
	close(r.done)
}

// inPlace reads once there is time and a place.
func (s *shared) inPlace(wait context.Context, own bool, read func() error) error {
	var used time.Duration
	if own {
		leave, err := s.budget.enter(wait)
		if err != nil {
			return err
		}
		defer func() { leave(used) }()
	}
	if s.places.Acquire(wait, 1) != nil {
		return errBusy
	}
	defer s.places.Release(1)
	began := time.Now()
	defer func() { used = time.Since(began) }()
	return read()
}

// keep has a page wait for those who ask for it. s.mu is held.
func (s *shared) keep(address string, r *reading) {
	s.drop(address)
	s.kept[address] = r
	if r.own {
		s.own++
	}
}

// drop forgets a page. s.mu is held.
func (s *shared) drop(address string) {
	if r := s.kept[address]; r != nil && r.own {
		s.own--
	}
	delete(s.kept, address)
}

// trim makes room: what is old goes, and where that is not enough, all that has been read but the main pages. Those that are being read, or wait
// for it, are few: see ownWaiting. s.mu is held.
func (s *shared) trim() {
	now := time.Now()
	for address, r := range s.kept {
		if !r.serves(now) {
			s.drop(address)
		}
	}
	if s.own < mostKept {
		return
	}
	for address, r := range s.kept {
		select {
		case <-r.done:
			if r.own {
				s.drop(address)
			}
		default:
		}
	}
}

// forget has every page read anew: something was changed.
func (s *shared) forget() {
	s.mu.Lock()
	clear(s.kept)
	s.own = 0
	s.mu.Unlock()
}

// address is what a page is kept by. That of those who may only read is another page: it has no forms.
func address(r *http.Request, readOnly bool) string {
	key := r.URL.Path + "?" + r.URL.Query().Encode()
	if readOnly {
		return "read " + key // no path begins so
	}
	return key
}

// atOnce asks the store several things. Its error is that of the first that fails.
func atOnce(questions ...func() error) error {
	var asking errgroup.Group
	asking.SetLimit(mostQuestions)
	for _, ask := range questions {
		asking.Go(ask)
	}
	return asking.Wait()
}
