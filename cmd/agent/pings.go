package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// pings is how tasks reach the agent.
type pings struct {
	base   atomic.Pointer[string]      // of their URLs
	signer atomic.Pointer[ping.Signer] // nil until the store's key is known
}

// newPings makes URLs that lead to the advertised address, else to the listener.
func newPings(l net.Listener, advertise string) *pings {
	p := &pings{}
	p.advertise(l, advertise)
	return p
}

// advertise has the URLs lead to another address, from the next one on.
func (p *pings) advertise(l net.Listener, advertise string) {
	base := api.Address(l)
	if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() { // it listens everywhere, here too
		local := *a
		local.IP = net.IPv4(127, 0, 0, 1)
		base = "http://" + local.String()
	}
	if advertise != "" {
		base = strings.TrimRight(advertise, "/")
	}
	p.base.Store(&base)
}

// learn takes in the store's key.
func (p *pings) learn(secret []byte) error {
	s, err := ping.NewSigner(secret)
	if err == nil {
		p.signer.Store(s)
	}
	return err
}

// url is the ping URL of an attempt.
func (p *pings) url(id task.ID, f task.Fence) string {
	s := p.signer.Load()
	if s == nil {
		return ""
	}
	return s.URL(*p.base.Load(), id, f)
}

// trace is the trace context of a row that was inserted without one.
func (p *pings) trace(id task.ID) string {
	s := p.signer.Load()
	if s == nil {
		return ""
	}
	return s.Trace(id)
}

// handler answers ping URLs for the loop.
func (a *agent) handler() http.Handler {
	return ping.NewHandler(a.pings.signer.Load, reports{a.engine}, a.log)
}

// reports has the loop take in what tasks report.
type reports struct{ engine }

// Fail says in the words of the protocol which attempts may not report their failure.
func (r reports) Fail(ctx context.Context, id task.ID, f task.Fence, text string, retryable bool) (store.Answer, error) {
	a, err := r.engine.Fail(ctx, id, f, text, retryable)
	if errors.Is(err, poll.ErrNotAsync) {
		err = &ping.Error{Reason: err.Error()}
	}
	return a, err
}
