package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Probes are what the health endpoints ask the agent. Those that are nil are taken to be well.
type Probes struct {
	// Healthy fails where the loop is stuck, so that only a new start can help.
	Healthy func() error
	// Store fails where the store is out of reach or its schema does not admit the binary.
	Store func(context.Context) error
	// Present reports whether the agent's session is present in the store, as far as the agent knows. It takes no time.
	Present func() bool
	// Draining reports whether the agent is about to end.
	Draining func() bool
}

const (
	storeTimeout = 2 * time.Second // for one question to the store
	storeEvery   = time.Second     // more frequent requests get the last answer
)

func (p *Probes) healthy() error {
	if p.Healthy == nil {
		return nil
	}
	return p.Healthy()
}

// readiness answers /-/ready. However many ask, the store is asked at most once a second; that the session is present shows at once.
type readiness struct {
	probes *Probes
	// An answer is for all who ask, so it ends with the server and not with the request that happened to come first.
	ctx context.Context

	mu      sync.Mutex // held while the store is asked: others wait for the same answer
	askedAt time.Time
	present bool  // was the session then
	err     error // of the store
}

func (r *readiness) check() error {
	if r.probes.Draining != nil && r.probes.Draining() {
		return errors.New("the agent is draining")
	}
	present := r.probes.Present == nil || r.probes.Present()
	if err := r.askStore(present); err != nil {
		return err
	}
	if !present {
		return errors.New("the agent's session is not present in the store")
	}
	return nil
}

// askStore returns the store's last answer, or a new one. A failure from before the session was present is the past.
func (r *readiness) askStore(present bool) error {
	if r.probes.Store == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	joined := present && !r.present
	if !r.askedAt.IsZero() && time.Since(r.askedAt) < storeEvery && (r.err == nil || !joined) {
		return r.err
	}
	ctx, cancel := context.WithTimeout(r.ctx, storeTimeout)
	defer cancel()
	if r.err = r.probes.Store(ctx); r.err != nil {
		r.err = &private{err: r.err, public: "the store cannot be used: the agent's log has the reason"}
	}
	r.askedAt, r.present = time.Now(), present
	return r.err
}

// private is a reason that may name hosts, users and databases: others than those who may read here are shown public.
type private struct {
	err    error
	public string
}

func (p *private) Error() string { return p.err.Error() }

func (p *private) Unwrap() error { return p.err }

// probe makes a check an endpoint: 200 and "ok", or 503 and why.
func probe(check func() error, mayRead func(*http.Request) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			if p, ok := errors.AsType[*private](err); ok && !mayRead(r) {
				err = errors.New(p.public)
			}
			_, _ = fmt.Fprintln(w, err) // an error here is the client's having gone away
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	}
}
