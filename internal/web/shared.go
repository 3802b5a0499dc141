package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// What all who look at once cost an agent, and the store.
const (
	freshFor   = 1500 * time.Millisecond // a page is not read again before that
	mostAtOnce = 4                       // pages that are read at once
	mostKept   = 64                      // pages: of a few hundred KiB at most, as their lists and documents are bounded
	waitFor    = 3 * time.Second         // for a place to read
)

// errBusy says that there was no place in time.
var errBusy = errors.New("the agent is busy with other pages: try again in a moment")

// shared has pages read once for all who ask for the same within a moment, and few at once.
type shared struct {
	places *semaphore.Weighted

	mu   sync.Mutex
	kept map[string]*reading
}

// reading is a page that is being read, or was.
type reading struct {
	done chan struct{} // closed once the rest is set
	at   time.Time     // when it began
	main []byte
	view *view
	err  error
}

func newShared() *shared {
	return &shared{places: semaphore.NewWeighted(mostAtOnce), kept: map[string]*reading{}}
}

// read returns what address shows: as it was read a moment ago, or by make. The one who reads does so for all that ask meanwhile.
func (s *shared) read(ctx context.Context, address string, read func() (*view, []byte, error)) (*view, []byte, error) {
	s.mu.Lock()
	if r := s.kept[address]; r != nil && time.Since(r.at) < freshFor {
		s.mu.Unlock()
		select {
		case <-r.done:
			return r.view, r.main, r.err
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	s.trim()
	r := &reading{done: make(chan struct{}), at: time.Now()}
	s.kept[address] = r
	s.mu.Unlock()
	r.view, r.main, r.err = s.inPlace(ctx, read)
	if r.err != nil {
		s.mu.Lock()
		if s.kept[address] == r { // the next one tries again
			delete(s.kept, address)
		}
		s.mu.Unlock()
	}
	close(r.done)
	return r.view, r.main, r.err
}

// inPlace reads once there is a place.
func (s *shared) inPlace(ctx context.Context, read func() (*view, []byte, error)) (*view, []byte, error) {
	wait, cancel := context.WithTimeout(ctx, waitFor)
	defer cancel()
	if s.places.Acquire(wait, 1) != nil {
		return nil, nil, errBusy
	}
	defer s.places.Release(1)
	return read()
}

// trim makes room: what is old goes, and where that is not enough, all that has been read. s.mu is held.
func (s *shared) trim() {
	for address, r := range s.kept {
		if time.Since(r.at) >= freshFor {
			delete(s.kept, address)
		}
	}
	if len(s.kept) >= mostKept {
		clear(s.kept)
	}
}

// forget has every page read anew: something was changed.
func (s *shared) forget() {
	s.mu.Lock()
	clear(s.kept)
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
