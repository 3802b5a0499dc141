package ops

import (
	"context"
	"sync"
	"time"
)

// Bounds of the histories that are kept.
const (
	hourEvery     = 5 * time.Second  // agents write their counts less often
	twoDaysEvery  = 30 * time.Second // a thirtieth of an interval
	mostHistories = 64
)

// Histories are what agents have done lately, for all who ask within an agent: each is read once for those who ask at once, and not again for 5 s,
// that of two days for 30 s. The zero value is ready.
type Histories struct {
	mu      sync.Mutex
	known   map[historyKey]keptHistory
	reading map[historyKey]chan struct{} // closed once it has been read, or could not be
}

// historyKey names a history.
type historyKey struct {
	span ActivitySpan
	typ  string
}

// keptHistory is one with when it was read.
type keptHistory struct {
	at   time.Time
	last *Activity
}

// Look returns what was done in a span, of one type or of all for "". read reads it where what is known is not new; its error is for this one
// alone: another who waits for the same then reads it. Else the error is ctx's.
func (h *Histories) Look(ctx context.Context, span ActivitySpan, typ string, read func() (*Activity, error)) (*Activity, error) {
	key := historyKey{span, typ}
	for {
		found, wait := h.look(key)
		switch {
		case found != nil:
			return found, nil
		case wait == nil:
			return h.read(key, read)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look returns a history that is new enough, or else what to wait for while another reads it. Without either the caller has to read it.
func (h *Histories) look(key historyKey) (found *Activity, wait <-chan struct{}) {
	every := hourEvery
	if key.span == LastTwoDays {
		every = twoDaysEvery
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if k, ok := h.known[key]; ok && time.Since(k.at) < every {
		return k.last, nil
	}
	if reading := h.reading[key]; reading != nil {
		return nil, reading
	}
	if h.reading == nil {
		h.reading = map[historyKey]chan struct{}{}
	}
	h.reading[key] = make(chan struct{})
	return nil, nil
}

func (h *Histories) read(key historyKey, read func() (*Activity, error)) (found *Activity, err error) {
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		close(h.reading[key])
		delete(h.reading, key)
		if found == nil {
			return
		}
		if h.known == nil || len(h.known) >= mostHistories {
			h.known = map[historyKey]keptHistory{}
		}
		h.known[key] = keptHistory{time.Now(), found}
	}()
	return read()
}
