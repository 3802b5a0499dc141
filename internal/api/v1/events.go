package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Bounds of a stream.
const (
	beatEvery   = 15 * time.Second // between two writes, at the most
	eventWithin = 10 * time.Second // to be written
	longestFeed = time.Hour
)

// follow answers with server-sent events, until the client goes or is too slow, the stream has lasted long enough, it is admitted no more, or
// next has nothing more. next is called once in an interval, and returns the events that are due, as text; a client that reads slowly misses
// those between, so nothing is kept for it.
func (c *call) follow(every time.Duration, next func(ctx context.Context) (events string, more bool, err error)) (any, error) {
	ctx, cancel := c.lasting(longestFeed)
	defer cancel()
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("X-Accel-Buffering", "no") // of nginx
	if c.r.Method == http.MethodHead {
		return answered, nil
	}
	s := &stream{w: c.w, control: http.NewResponseController(c.w)}
	if s.send("retry: 2000\n\n") != nil {
		return answered, nil
	}
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		events, more, err := next(ctx)
		if err != nil {
			return answered, nil // the stream ends
		}
		if events == "" && time.Since(s.at) >= beatEvery {
			events = ":\n\n"
		}
		if events != "" && s.send(events) != nil || !more {
			return answered, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return answered, nil
		}
	}
}

// place takes one of the places of streams, and gives back that of requests: those that stay keep no others out.
func (c *call) place() error {
	if err := c.take(c.api.bounds.streams, 1); err != nil {
		return err
	}
	c.leave()
	return nil
}

// event is an event as text. The data is JSON, which has no line breaks.
func event(name string, data []byte) string {
	return fmt.Sprintf("event: %s\ndata: %s\n\n", name, bytes.ToValidUTF8(data, []byte("\ufffd")))
}

// streamEvents follows the numbers and the lists.
func (a *API) streamEvents(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if err := c.place(); err != nil {
		return nil, err
	}
	var counts []byte
	var look int64
	return c.follow(newsEvery, func(ctx context.Context) (events string, more bool, err error) {
		now, err := a.readNews(ctx)
		if err != nil || now == nil {
			return "", true, err
		}
		if !bytes.Equal(now.counts, counts) {
			events, counts = event("counts", now.counts), now.counts
		}
		if changed, ok := now.since(look); ok && look > 0 {
			data, err := json.Marshal(changed)
			if err != nil {
				return "", false, err
			}
			events += event("changed", data)
		}
		look = now.look
		return events, true, nil
	})
}

// streamTask follows one task.
func (a *API) streamTask(c *call) (any, error) {
	id, err := c.taskID()
	if err != nil {
		return nil, err
	}
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if err := c.place(); err != nil {
		return nil, err
	}
	now, err := a.first(c.ctx, id)
	if err != nil {
		return nil, err
	}
	defer a.watched.add(id)()
	began := time.Now()
	var sent []byte
	return c.follow(glanceEvery, func(ctx context.Context) (events string, more bool, err error) {
		if sent != nil {
			all, err := a.readGlances(ctx)
			if err != nil {
				return "", false, err
			}
			if all.began.Before(began) { // for others, and it may be older than what was sent; or the store could not be read since
				return "", true, nil
			}
			now = all.tasks[id]
		}
		switch {
		case now == nil:
			return event("gone", fmt.Appendf(nil, `{"id":%d}`, id)), false, nil
		case bytes.Equal(now, sent):
			return "", true, nil
		}
		sent = now
		return event("task", now), true, nil
	})
}

// stream is where events are written to.
type stream struct {
	w       io.Writer
	control *http.ResponseController
	at      time.Time // of the last write
}

// send writes at once, within a bound.
func (s *stream) send(text string) error {
	s.at = time.Now()
	_ = s.control.SetWriteDeadline(s.at.Add(eventWithin)) // else the listener's stays
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.control.Flush()
}
