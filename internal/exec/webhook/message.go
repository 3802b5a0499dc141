package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/leasehold/leasehold/internal/exec/envelope"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Message is what is sent, without its signature.
type Message struct {
	Method string
	URL    *url.URL
	Host   string // "" for the URL's
	Header http.Header
	Body   []byte
	ID     string // webhook-id
}

// Message writes the request of an attempt. Its errors are the row's fault: they name the template, or what it made.
func (c *Client) Message(l *lease.Lease, t *task.Type, w *task.Webhook) (*Message, error) {
	if w.Batch != nil {
		return c.batchMessage(l, t, w)
	}
	e := envelope.Of(l, t)
	m := &Message{Method: w.Method, ID: e.MessageID(), Header: make(http.Header, headers(&e, w))}
	if m.Method == "" {
		m.Method = http.MethodPost
	}
	if err := m.declared(c, e.Task, t, w); err != nil {
		return nil, err
	}
	m.protocol(&e, w)
	if w.Body == task.BodyPayload {
		m.Body = e.Task.Data()
		return m, nil
	}
	var err error
	m.Body, err = e.JSON()
	return m, err
}

// declared sets the URL and the headers that are declared, and those that are the same for all messages.
func (m *Message) declared(c *Client, row *task.Task, t *task.Type, w *task.Webhook) (err error) {
	if m.URL, err = target(row, t, w.URL); err != nil {
		return err
	}
	m.Header["Content-Type"] = c.media
	m.Header["User-Agent"] = c.agent
	for name, template := range w.Headers {
		value, err := template(row)
		if err != nil {
			return err
		}
		if !plain(value) {
			return fmt.Errorf("%s: header %s: row data contains control characters, which are not allowed in a header", t.Source, name)
		}
		if http.CanonicalHeaderKey(name) == "Host" {
			m.Host = value
			continue
		}
		m.Header.Set(name, value)
	}
	return nil
}

// headers is how many headers are set below and by sign, and no more: a map of 14 has half the size of one of 15.
func headers(e *envelope.Envelope, w *task.Webhook) int {
	n := 10 + len(w.Headers)
	if len(w.Secrets) > 0 {
		n += 2
	}
	if w.IdempotencyKey {
		n++
	}
	if e.PingURL != "" {
		n++
	}
	return n
}

// protocol sets the headers that are the protocol's own; no declared header replaces them.
func (m *Message) protocol(e *envelope.Envelope, w *task.Webhook) {
	row := e.Task
	values := make([]string, 0, 10) // one array for the values of all
	set := func(name, value string) {
		values = append(values, value)
		m.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("Webhook-Id", m.ID)
	set("Traceparent", e.Traceparent())
	set("Leasehold-Type", e.Type)
	set("Leasehold-Task", strconv.FormatInt(int64(row.ID), 10))
	set("Leasehold-Phase", string(e.Phase))
	set("Leasehold-Attempt", strconv.Itoa(row.Attempt))
	set("Leasehold-Fence", strconv.FormatInt(int64(row.Fence), 10))
	set("Leasehold-Deadline", envelope.Time(e.Deadline))
	if e.PingURL != "" {
		set("Leasehold-Ping-Url", e.PingURL)
	}
	if w.IdempotencyKey {
		set("Idempotency-Key", m.ID)
	}
}

// target evaluates the URL. Config has seen to it that rows fill path and query only; this is the last look.
func target(row *task.Task, t *task.Type, template task.Template) (*url.URL, error) {
	text, err := template(row)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok { // it repeats the URL, and with it what may be secret there
			err = of.Err
		}
		return nil, fmt.Errorf("%s: url: %w", t.Source, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("%s: url: %q is not http://host… or https://host…", t.Source, u.Scheme+"://"+u.Host)
	}
	return u, nil
}

// plain reports whether s may stand in a header (RFC 9110, field-value).
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
