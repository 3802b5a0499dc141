package postgres

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ask is the claim of a promotion that may start rows (start_first).
type ask struct {
	Session  int64       `json:"session"`
	Number   int64       `json:"number"`
	Bytes    *int64      `json:"bytes"`
	Wants    []askWant   `json:"wants"`
	LowTimes []time.Time `json:"low_times"`
	LowIDs   []int64     `json:"low_ids"`
}

type askWant struct {
	Type     string `json:"type"`
	N        int    `json:"n"`
	Length   int64  `json:"length"`
	Policy   int64  `json:"policy"`
	Deadline int64  `json:"deadline"`
}

// pass passes on the locks and the turns that rows have left, and starts what a claim would take of it first. free are the wants of types
// without limit and tenants, limited and turned the others: they are left with what is wanted still.
//
// The rows are read once they are the session's: a promotion keeps locks of others from being passed on, and must not last until an agent has
// read them, which may be frozen.
func (s *Store) pass(ctx context.Context, conn *pgx.Conn, c store.Claim, free, limited, turned *store.Claim) (got claimed, err error) {
	c.Pass.Promoted = store.Promoted{}
	wants := free.Wants
	free.Wants = slices.Clone(wants)
	for _, of := range s.sql.promotions() {
		some, started, err := s.promote(ctx, conn, of, c.Pass.Most, s.askOf(*free))
		if err != nil {
			return got, err
		}
		c.Pass.Promoted = c.Pass.Promoted.With(some)
		if len(started) < some.Rows {
			s.lowWater.rose()
		}
		if len(started) == 0 {
			continue
		}
		if got.tasks, err = s.claimed(ctx, conn, int64(c.Session), c.Number); err != nil {
			return got, err
		}
		had, bytes := map[string]int{}, int64(0)
		for i := range got.tasks {
			had[got.tasks[i].Type]++
			bytes += documentsOf(&got.tasks[i])
		}
		for i, w := range wants {
			if w.Phase == task.Run {
				free.Wants[i].N = max(w.N-had[w.Type], 0)
			}
		}
		if c.Bytes > 0 {
			free.Bytes = max(c.Bytes-bytes, 1)
			limited.Bytes, turned.Bytes = free.Bytes, free.Bytes
		}
	}
	free.Wants = slices.DeleteFunc(free.Wants, func(w store.Want) bool { return w.N == 0 })
	return got, nil
}

// askOf returns what a promotion may start of the wants of a claim; nil: nothing. Those of an agent with a region are left to claims.
func (s *Store) askOf(c store.Claim) []byte {
	run := c
	run.Wants = slices.DeleteFunc(slices.Clone(c.Wants), func(w store.Want) bool { return w.Phase != task.Run || w.N == 0 })
	if c.Region != "" || len(run.Wants) == 0 {
		return nil
	}
	l := s.lowWater.look(run)
	a := ask{Session: int64(c.Session), Number: c.Number, LowTimes: l.at, LowIDs: l.id}
	if c.Bytes > 0 {
		a.Bytes = &c.Bytes
	}
	for _, w := range run.Wants {
		a.Wants = append(a.Wants, askWant{w.Type, min(w.N, math.MaxInt32), w.Window.Microseconds(), int64(w.Policy), w.Deadline.Microseconds()})
	}
	text, err := json.Marshal(a)
	if err != nil {
		return nil // it has numbers, strings and times within the years that JSON has
	}
	return text
}
