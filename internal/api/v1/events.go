package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/leasehold/leasehold/internal/ops"
)

// Bounds of a stream.
const (
	countsEvery  = 2 * time.Second  // between two looks, for all streams together
	countsWithin = 10 * time.Second // one look
	beatEvery    = 15 * time.Second // between two writes, at the most
	eventWithin  = 10 * time.Second // to be written
	longestFeed  = time.Hour
)

// counts is what was counted last. However many streams there are, the store is asked once.
type counts struct {
	turn *semaphore.Weighted // of the one who asks: others wait for the same answer
	at   time.Time
	last []byte // as JSON; nil: the store could not be read
}

// readCounts counts, unless that was just done. It returns nil where the store cannot be read, and ctx's error.
func (a *API) readCounts(ctx context.Context) ([]byte, error) {
	if err := a.counts.turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer a.counts.turn.Release(1)
	if !a.counts.at.IsZero() && time.Since(a.counts.at) < countsEvery*9/10 {
		return a.counts.last, nil
	}
	call, cancel := context.WithTimeout(ctx, countsWithin)
	defer cancel()
	done, err := a.bounds.turn(call)
	if err != nil {
		return nil, ctx.Err()
	}
	defer done()
	counted, err := ops.ReadCounts(call, a.Store)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	a.counts.at, a.counts.last = time.Now(), nil
	if err == nil {
		a.counts.last, err = json.Marshal(counted)
	}
	if err != nil {
		a.Log.Debug("the store cannot be read for the API's events", "err", err)
	}
	return a.counts.last, nil
}

// streamEvents answers with server-sent events, until the client goes, the stream has lasted long enough, or it is admitted
// no more.
func (a *API) streamEvents(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if err := c.take(a.bounds.streams, 1); err != nil {
		return nil, err
	}
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
	look := time.NewTicker(countsEvery)
	defer look.Stop()
	var sent []byte
	for {
		now, err := a.readCounts(ctx)
		switch {
		case err != nil:
			return answered, nil // the stream ends
		case now != nil && !bytes.Equal(now, sent):
			sent = now
			err = s.send(fmt.Sprintf("event: counts\ndata: %s\n\n", now))
		case time.Since(s.at) >= beatEvery:
			err = s.send(":\n\n")
		}
		if err != nil {
			return answered, nil // the client has gone
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return answered, nil
		}
	}
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
