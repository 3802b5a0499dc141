package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// Secret is the store's own key for ping URLs.
func (s *Store) Secret(ctx context.Context) (key []byte, err error) {
	err = s.do(ctx, "read the secret", func(ctx context.Context, conn *pgx.Conn) error {
		return queryRow(ctx, conn, s.sql.Secret).Scan(&key)
	})
	return key, err
}

// TakePings takes in pings that come by another way than the session that holds the row.
func (s *Store) TakePings(ctx context.Context, rows []store.RemotePing) ([]store.PingReply, error) {
	if len(rows) == 0 {
		return nil, ctx.Err()
	}
	replies := make([]store.PingReply, len(rows))
	places := make([]int, len(rows))
	for i := range places {
		places[i] = i
	}
	err := s.live(ctx, "take pings", func(ctx context.Context, conn *pgx.Conn) error {
		for wait := lockFirst; ; wait *= 2 {
			if err := s.pingSome(ctx, conn, rows, places, replies); err != nil {
				return err
			}
			// A lock that is met is another agent's for the length of a statement (see settling).
			places = slices.DeleteFunc(places, func(p int) bool { return replies[p].Answer != store.Busy })
			if len(places) == 0 || wait > lockLast || !pause(ctx, wait) {
				return nil
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return replies, nil
}

// pingSome records the pings at places and fills in the replies. A report that the server refuses must not keep the others
// from being recorded: it is found by halving, and kept in another form.
func (s *Store) pingSome(
	ctx context.Context, conn *pgx.Conn, rows []store.RemotePing, places []int, replies []store.PingReply,
) error {
	some := make([]store.RemotePing, len(places))
	for i, p := range places {
		some[i] = rows[p]
	}
	got, err := s.pingOnce(ctx, conn, some)
	if badValue(err) && len(some) > 1 {
		half := len(places) / 2
		if err := s.pingSome(ctx, conn, rows, places[:half], replies); err != nil {
			return err
		}
		return s.pingSome(ctx, conn, rows, places[half:], replies)
	}
	if badValue(err) {
		s.log.Warn("the store refuses what a task said as JSON: it is kept as strings", "task", int64(some[0].ID), "err", err)
		n := asStrings(store.Report{Progress: some[0].Progress, Checkpoint: some[0].Checkpoint})
		some[0].Progress, some[0].Checkpoint = n.Progress, n.Checkpoint
		got, err = s.pingOnce(ctx, conn, some)
	}
	if err != nil {
		return err
	}
	for i, p := range places {
		replies[p] = got[i]
	}
	return nil
}

func (s *Store) pingOnce(ctx context.Context, conn *pgx.Conn, rows []store.RemotePing) ([]store.PingReply, error) {
	n := len(rows)
	ids, fences, within := make([]int64, n), make([]int64, n), make([]*float64, n)
	var reports reportColumns
	for i := range rows {
		r := &rows[i]
		ids[i], fences[i] = int64(r.ID), int64(r.Fence)
		if seconds := r.NextWithin.Seconds(); seconds > 0 {
			within[i] = &seconds
		}
		reports.set(i, n, &store.Report{Progress: r.Progress, Message: r.Message, Checkpoint: r.Checkpoint})
	}
	replies := make([]store.PingReply, n)
	var place int
	var answer string
	var reply store.PingReply
	var remaining float64
	into := []any{&place, &answer, &reply.Counted, &reply.Cancel, &reply.Reason, &remaining}
	err := forEach(ctx, conn, into, func() (err error) {
		reply.Remaining = time.Duration(remaining * float64(time.Second))
		reply.Answer, err = answerOf(answer)
		replies[place-1] = reply
		return err
	}, s.sql.TakePings, arg("ids", ids), arg("fences", fences), arg("progress", reports.progress),
		arg("messages", reports.message), arg("checkpoints", reports.checkpoint), arg("within", within))
	return replies, err
}

// answerOf reads the answer of one of the schema's functions.
func answerOf(text string) (store.Answer, error) {
	for _, a := range []store.Answer{store.Lost, store.Applied, store.Ended, store.Busy} {
		if a.String() == text {
			return a, nil
		}
	}
	return store.Lost, fmt.Errorf("the store answers %q", text)
}
