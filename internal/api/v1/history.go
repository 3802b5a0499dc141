package v1

import (
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/ops"
)

// Bounds of the answers that are kept. They spare the store: many clients that show the same picture cost it what one does.
const (
	historyEvery = 5 * time.Second // agents write their counts less often
	mostHistory  = 64              // answers: spans and types
)

// historyKey names an answer.
type historyKey struct {
	span ops.ActivitySpan
	typ  string
}

// kept is an answer with when it was read.
type kept struct {
	at   time.Time
	last *ops.Activity
}

// history are the last answers.
type history struct {
	mu      sync.Mutex
	answers map[historyKey]kept
	reading map[historyKey]chan struct{} // closed once the answer is there, or could not be read
}

// getHistory answers with what all agents have done in the last hour, or in the last two days.
func (a *API) getHistory(c *call) (any, error) {
	text, typ := c.query.text("span"), c.query.text("type")
	span := ops.LastHour
	if text != "" {
		var err error
		if span, err = ops.ParseActivitySpan(text); err != nil {
			c.query.wrong("span %s: use %s or %s", api.Quote(text), ops.LastHour, ops.LastTwoDays)
		}
	}
	if err := c.query.end(); err != nil {
		return nil, err
	}
	key := historyKey{span, typ}
	for {
		found, wait := a.history.look(key)
		switch {
		case found != nil:
			return found, nil
		case wait == nil:
			return a.readHistory(c, key)
		}
		select {
		case <-wait: // another request has read it, or has failed to
		case <-c.ctx.Done():
			return nil, errBusy
		}
	}
}

// readHistory reads an answer, and keeps it.
func (a *API) readHistory(c *call, key historyKey) (found *ops.Activity, err error) {
	defer func() { a.history.read(key, found) }()
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	return ops.ReadActivity(c.ctx, s, key.span, key.typ)
}

// look returns an answer that is new enough, or else what to wait for while another request reads it. Without either the caller reads it,
// and says so with read.
func (h *history) look(key historyKey) (found *ops.Activity, wait <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k, ok := h.answers[key]; ok && time.Since(k.at) < historyEvery {
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

// read takes what was read; nil: it could not be.
func (h *history) read(key historyKey, found *ops.Activity) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.reading[key])
	delete(h.reading, key)
	if found == nil {
		return
	}
	if h.answers == nil || len(h.answers) >= mostHistory {
		h.answers = map[historyKey]kept{}
	}
	h.answers[key] = kept{time.Now(), found}
}
