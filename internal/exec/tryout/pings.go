package tryout

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// pings takes the pings of one attempt. It implements ping.Pings.
type pings struct {
	lease  *lease.Lease
	server *http.Server
	served chan struct{}

	mu    sync.Mutex
	ended *task.Outcome // as the task has reported it
	done  chan struct{} // closed then
}

// serve takes pings of l, which has not started yet, until close.
func serve(listener net.Listener, l *lease.Lease, log *slog.Logger) (*pings, error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	signer, err := ping.NewSigner(secret)
	if err != nil {
		return nil, err
	}
	p := &pings{lease: l, served: make(chan struct{}), done: make(chan struct{})}
	const fence = 1 // of the URL, which must have one; the secret is of this attempt alone, so that no agent takes it for a task's
	row, base := l.Task(), "http://"+listener.Addr().String()
	l.SetPingURL(func() string { return signer.URL(base, row.ID, fence) })
	const patience = 5 * time.Second
	p.server = &http.Server{
		Handler:           ping.NewHandler(func() *ping.Signer { return signer }, p, log),
		ReadHeaderTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	}
	go func() { // ends with close
		defer close(p.served)
		_ = p.server.Serve(listener)
	}()
	return p, nil
}

func (p *pings) close() {
	_ = p.server.Close()
	<-p.served
}

// Ping is ping.Pings.
func (p *pings) Ping(_ context.Context, _ task.ID, _ task.Fence, q store.Ping) (store.PingReply, error) {
	return p.lease.Ping(q), nil
}

// Complete is ping.Pings.
func (p *pings) Complete(_ context.Context, _ task.ID, _ task.Fence, result json.RawMessage) (store.Answer, error) {
	return p.report(task.Outcome{Verdict: task.Succeeded, Result: result}), nil
}

// Fail is ping.Pings.
func (p *pings) Fail(_ context.Context, _ task.ID, _ task.Fence, text string, retryable bool) (store.Answer, error) {
	if _, _, async := p.lease.Policy().Liveness(p.lease.Task().Phase()); !async {
		return store.Lost, &ping.Error{Reason: "only a task that was accepted with 202 reports its failure this way"}
	}
	o := task.Outcome{Verdict: task.Failed, Error: text}
	if !retryable {
		o.Verdict = task.Rejected
	}
	return p.report(o), nil
}

// report records the end that the task has reported; the first report counts.
func (p *pings) report(o task.Outcome) store.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended != nil && p.ended.Verdict == o.Verdict:
		return store.Ended
	case p.ended != nil || p.lease.Context().Err() != nil:
		return store.Lost
	}
	p.ended = &o
	close(p.done)
	return store.Applied
}

// outcome returns the end that the task has reported; nil: none.
func (p *pings) outcome() *task.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}
