package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// tryout takes the pings of the one attempt that `try` runs, on a listener of its own, and shows them.
type tryout struct {
	lease  *lease.Lease
	out    io.Writer // for people
	server *http.Server
	served chan struct{}

	mu    sync.Mutex
	ended *task.Outcome // as the task has reported it
	done  chan struct{} // closed then
}

// listenFor takes pings of l, which has not started yet, until close.
func listenFor(l *lease.Lease, out io.Writer, log *slog.Logger) (*tryout, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for pings: %w", err)
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	signer, err := ping.NewSigner(secret)
	if err != nil {
		return nil, err
	}
	t := &tryout{lease: l, out: out, served: make(chan struct{}), done: make(chan struct{})}
	row, base := l.Task(), api.Address(listener)
	l.SetPingURL(func() string { return signer.URL(base, row.ID, row.Fence) })
	l.OnPing(t.show)
	const patience = 5 * time.Second
	t.server = &http.Server{
		Handler:           ping.NewHandler(func() *ping.Signer { return signer }, t, log),
		ReadHeaderTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	}
	go func() { // ends with close
		defer close(t.served)
		_ = t.server.Serve(listener)
	}()
	return t, nil
}

func (t *tryout) close() {
	_ = t.server.Close()
	<-t.served
}

// Ping is ping.Pings.
func (t *tryout) Ping(_ context.Context, _ task.ID, _ task.Fence, p store.Ping) (store.PingReply, error) {
	return t.lease.Ping(p), nil
}

// Complete is ping.Pings.
func (t *tryout) Complete(_ context.Context, _ task.ID, _ task.Fence, result json.RawMessage) (store.Answer, error) {
	return t.report(task.Outcome{Verdict: task.Succeeded, Result: result}), nil
}

// Fail is ping.Pings.
func (t *tryout) Fail(_ context.Context, _ task.ID, _ task.Fence, text string, retryable bool) (store.Answer, error) {
	if _, _, async := t.lease.Policy().Liveness(t.lease.Task().Phase()); !async {
		return store.Lost, &ping.Error{Reason: "only a task that was accepted with 202 reports its failure this way"}
	}
	o := task.Outcome{Verdict: task.Failed, Error: text}
	if !retryable {
		o.Verdict = task.Rejected
	}
	return t.report(o), nil
}

// report notes how the task has ended by its own account; the first time counts.
func (t *tryout) report(o task.Outcome) store.Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended != nil && t.ended.Verdict == o.Verdict:
		return store.Ended
	case t.ended != nil || t.lease.Context().Err() != nil:
		return store.Lost
	}
	t.ended = &o
	close(t.done)
	return store.Applied
}

// outcome is how the attempt has ended, given what its runner says: one that was accepted goes on until it reports, or
// must stop.
func (t *tryout) outcome(o task.Outcome) task.Outcome {
	if o.Accepted {
		t.lease.Ping(store.Ping{}) // to be told so counts
		select {
		case <-t.done:
		case <-t.lease.Context().Done():
			o = t.lease.Cause().Outcome()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return *t.ended
	}
	return o
}

// show shows a ping.
func (t *tryout) show(p store.Ping, answer store.PingReply) {
	var b strings.Builder
	b.WriteString("ping")
	for _, part := range []string{string(p.Progress), p.Message} {
		if part != "" {
			b.WriteString(" " + ops.OneLine(part, 200))
		}
	}
	if p.Checkpoint != nil {
		b.WriteString(", checkpoint " + ops.OneLine(string(p.Checkpoint), 200))
	}
	if answer.Reason != "" {
		b.WriteString(" (" + answer.Reason + ")")
	}
	_, _ = fmt.Fprintln(t.out, b.String())
}
