package webhook

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/leasehold/leasehold/internal/exec/envelope"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// message writes the request of the attempts. Those that cannot be in it end at once; nil: none is left, and all have ended.
func (b *batch) message(c *Client, ls []*lease.Lease) *Message {
	b.body = envelope.AppendMany(make([]byte, 0, 1024*len(ls)), b.typ.Name, ls[0].Now())
	for i, l := range ls {
		if l.Context().Err() != nil {
			b.ended(i, stopped(l, true))
			continue
		}
		x, o := b.add(i, l)
		if x == nil {
			b.ended(i, o)
			continue
		}
		b.rows = append(b.rows, x)
		b.byID[l.Task().ID] = x
	}
	b.open = len(b.rows)
	b.many = b.open > 1
	if b.open == 0 {
		return nil
	}
	b.body = append(b.body, envelope.ManyTail...)
	m, err := b.request(c)
	if err != nil { // the declaration's fault: it uses nothing of a row
		b.endAll(task.Outcome{Verdict: task.Undelivered, Error: err.Error(), NeverStarted: true})
		return nil
	}
	return m
}

// add appends the element of an attempt to the body; nil: it cannot be in the message, and ends with that outcome.
func (b *batch) add(i int, l *lease.Lease) (*entry, task.Outcome) {
	e := envelope.Of(l, b.typ)
	before := len(b.body)
	if len(b.rows) > 0 {
		b.body = append(b.body, ',')
	}
	x := &entry{lease: l, i: i, from: len(b.body)}
	body, err := e.AppendElement(b.body)
	switch {
	case err != nil: // the row's fault
		b.body = b.body[:before]
		return nil, task.Outcome{Verdict: task.Rejected, Error: err.Error(), NeverStarted: true}
	case len(b.rows) > 0 && len(body)+len(envelope.ManyTail) > task.MaxBatchBytes:
		b.body = b.body[:before]
		return nil, task.Outcome{Verdict: task.Drained, Error: "there was no room for it in the request", NeverStarted: true}
	}
	b.body, x.to = body, len(body)
	return x, task.Outcome{}
}

// request returns the message with that body.
func (b *batch) request(c *Client) (*Message, error) {
	row := b.rows[0].lease.Task()
	m := &Message{Method: b.target.Method, ID: batchID(), Header: make(http.Header, 10), Body: b.body}
	if m.Method == "" {
		m.Method = http.MethodPost
	}
	if err := m.declared(c, row, b.typ, b.target); err != nil {
		return nil, err
	}
	m.Header["Webhook-Id"] = []string{m.ID}
	m.Header["Leasehold-Type"] = []string{b.typ.Name}
	m.Header["Leasehold-Phase"] = []string{string(b.rows[0].lease.Phase())}
	return m, nil
}

// batchID names a request with several tasks: each delivery is one of its own.
func batchID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return "batch_" + hex.EncodeToString(random[:])
}

// renew writes the message anew without the attempts that have ended, if there are any. Nothing of it has left. So those that were
// cancelled meanwhile end at once, without their grace.
func (b *batch) renew(m *Message) {
	var cancelled []*entry
	last := false
	b.mu.Lock()
	b.sent = false
	for _, x := range b.rows {
		if x.cancelled && !x.over {
			last = b.over(x)
			cancelled = append(cancelled, x)
		}
	}
	b.rewrite(m)
	b.mu.Unlock()
	for i, x := range cancelled {
		b.tell(x, stopped(x.lease, true), last && i == len(cancelled)-1)
	}
}

// rewrite writes the message without the attempts that have ended. b.mu is held.
func (b *batch) rewrite(m *Message) {
	if !b.old || b.open == 0 {
		return
	}
	b.old = false
	first := b.rows[0].from
	body := append(make([]byte, 0, len(b.body)), b.body[:first]...)
	n := 0
	for _, x := range b.rows {
		x.out = x.over
		if x.out {
			continue
		}
		if n > 0 {
			body = append(body, ',')
		}
		body = append(body, b.body[x.from:x.to]...)
		n++
	}
	b.many = n > 1
	body = append(body, envelope.ManyTail...)
	m.Body = body
}

// batchMessage writes the request of a single attempt whose target w has a Batch.
func (c *Client) batchMessage(l *lease.Lease, t *task.Type, w *task.Webhook) (*Message, error) {
	var o task.Outcome
	b := &batch{typ: t, target: w, ended: func(_ int, end task.Outcome) { o = end }, byID: make(map[task.ID]*entry)}
	m := b.message(c, []*lease.Lease{l})
	if m == nil {
		return nil, fmt.Errorf("%s", o.Error)
	}
	return m, nil
}
