package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

const (
	// echoWithin is how long an agent waits for its own first notification. It is sent on another connection, so a
	// pooler that shares server connections between clients loses it.
	echoWithin = 2 * time.Second
	echoTries  = 2
	echoPrefix = "echo "
	asked      = "asked"  // inserts send no payload
	waiting    = "after"  // a row came that waits for others
	paused     = "pause"  // a type was paused or resumed
	place      = "place " // and a session: there is a place in a limit for it

	probeEvery  = 30 * time.Second // how long a silent connection is trusted
	againFirst  = 200 * time.Millisecond
	againLast   = 30 * time.Second
	againSteady = time.Minute // a connection that lasted so long starts the delays anew
)

var errNoEcho = errors.New("no notification came back")

// Listen calls wake when rows may have been inserted, and after every gap in listening, until ctx ends.
func (s *Store) Listen(ctx context.Context, wake func(store.News)) error {
	echoed := !s.notify
	delay, missed := againFirst, 0
	for s.notify {
		began := time.Now()
		err := s.listen(ctx, wake, &echoed)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // to end with its context is what it is for
		}
		if errors.Is(err, errNoEcho) {
			if missed++; missed < echoTries { // the agent may have stood still
				continue
			}
			s.log.Warn("notifications do not arrive: is a pooler in between? "+
				"New tasks are found by polling; `notify = false` says so", "waited", echoTries*echoWithin)
			break
		}
		s.report(explain(err))
		if time.Since(began) > againSteady {
			delay = againFirst
		}
		if !pause(ctx, delay/2+rand.N(delay)) {
			return nil
		}
		delay = min(2*delay, againLast)
	}
	<-ctx.Done()
	return nil
}

// logListening is Options.Report where none is given.
func (s *Store) logListening(err error) {
	if err != nil {
		s.log.Warn("listening for new tasks was interrupted", "err", err)
	}
}

// pause waits, and reports false where ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// listen listens on one connection until it is lost.
func (s *Store) listen(ctx context.Context, wake func(store.News), echoed *bool) error {
	opening, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := s.connect.single(opening)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // it is closed in any case
	}()
	if _, err := conn.Exec(opening, s.schema.fill("LISTEN {channel}")); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if !*echoed {
		if err := s.echo(ctx, conn, wake); err != nil {
			return err
		}
		*echoed = true
	}
	s.report(nil)
	wake(store.Due | store.CancelNews | store.AfterNews | store.PauseNews | store.PlaceNews) // for what came while no connection listened
	for {
		payload, err := next(ctx, conn, probeEvery)
		switch {
		case err == nil:
			s.heard(wake, payload)
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, context.DeadlineExceeded):
			return err
		default: // silence: is the connection alive?
			if err := probe(ctx, conn); err != nil {
				return err
			}
		}
	}
}

// heard says what a notification is about.
func (s *Store) heard(wake func(store.News), payload string) {
	session, isPlace := strings.CutPrefix(payload, place)
	switch {
	case isPlace:
		if session == strconv.FormatInt(s.wanting.Load(), 10) {
			wake(store.PlaceNews)
		}
	case payload == asked:
		wake(store.CancelNews)
	case payload == waiting:
		wake(store.AfterNews)
	case payload == paused:
		wake(store.PauseNews)
	case !strings.HasPrefix(payload, echoPrefix):
		wake(store.Due)
	}
}

// next waits for one notification.
func next(ctx context.Context, conn *pgx.Conn, within time.Duration) (payload string, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	if err != nil {
		return "", err
	}
	return n.Payload, nil
}

func probe(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

// echo has the agent notify itself, and waits until that arrives.
func (s *Store) echo(ctx context.Context, conn *pgx.Conn, wake func(store.News)) error {
	token := echoPrefix + strconv.FormatUint(rand.Uint64(), 36)
	err := s.do(ctx, "notify myself", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_notify($1, $2)", s.schema.channel(), token)
		return err
	})
	if err != nil {
		return err
	}
	end := time.Now().Add(echoWithin)
	for {
		payload, err := next(ctx, conn, time.Until(end))
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return errNoEcho
		case err != nil:
			return err
		case payload == token:
			return nil
		}
		s.heard(wake, payload)
	}
}
