//go:build linux

package faults

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/faults/history"
	"github.com/leasehold/leasehold/test/faults/script"
)

// kindFollow is the type of rows of which many have one key, one after another.
const kindFollow = "follow"

// followKeys is how many keys these have.
const followKeys = 8

// followPayload is theirs.
type followPayload struct {
	script.Payload
	N int `json:"n"`
}

// produceFollowers enqueues rows whose keys are taken most of the time, until ctx ends. Some transactions stay open for a moment, which
// keeps the live row from ending.
func (w *world) produceFollowers(ctx context.Context) {
	if w.o.Followers == 0 {
		return
	}
	r := rand.New(rand.NewPCG(w.o.Seed, 5))
	tick := time.NewTicker(time.Second / time.Duration(w.o.Followers))
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f := w.enqueueFollower(ctx, r, n)
		w.mu.Lock()
		w.followed = append(w.followed, f)
		w.mu.Unlock()
	}
}

func (w *world) enqueueFollower(ctx context.Context, r *rand.Rand, n int) history.Followed {
	f := history.Followed{Key: "followed " + strconv.Itoa(r.IntN(followKeys)), N: n, At: history.Now()}
	bad := []script.Deed{script.Fail, script.Later, script.Cut, script.Late}
	end := []script.Deed{script.OK, script.OK, script.Nap, script.Nap, script.Work, script.Fail}
	deeds := w.o.Script
	if deeds == nil {
		deeds = fails(r, bad, end)
	}
	p := followPayload{script.Payload{Key: f.Key, Script: deeds}, n}
	onLive, due := []string{"again", "replace"}[r.IntN(2)], new(longAgo())
	var debounce, most *float64 // seconds
	if onLive == "replace" && r.IntN(2) == 0 {
		due, debounce, most = nil, new(0.2), new(1.0)
	}
	open := time.Duration(0)
	if r.IntN(3) == 0 {
		open = time.Duration(r.IntN(300)) * time.Millisecond
	}
	text := `SELECT id, answer FROM leasehold.enqueue_result(type => $1, payload => $2, key => $3, on_live => $4, run_at => $5, max_attempts => 3,
		debounce => $6::double precision * interval '1 second', debounce_max => $7::double precision * interval '1 second')`
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // these are strings and a number
	}
	args := []any{kindFollow, body, f.Key, onLive, due, debounce, most}
	f.Commit = w.inTransaction(ctx, r.IntN(15) == 0, false, func(ctx context.Context, tx pgx.Tx) error {
		if w.o.SQLite {
			if _, err := tx.Exec(ctx, `INSERT INTO enqueue (type, payload, key, on_live, run_at, debounce_s, debounce_max_s, max_attempts)
				VALUES ($1, $2, $3, $4, $5, $6, $7, 3)`,
				args...); err != nil {
				return err
			}
			return tx.QueryRow(ctx, `SELECT id, answer FROM enqueue_result`).Scan(&f.ID, &f.Answer)
		}
		if err := tx.QueryRow(ctx, text, args...).Scan(&f.ID, &f.Answer); err != nil {
			return err
		}
		sleepUntil(ctx, time.Now().Add(open))
		return nil
	})
	return f
}

// collectFollowers reads what became of the rows. Agents have ended.
func (w *world) collectFollowers(t testing.TB, h *history.History) {
	t.Helper()
	w.mu.Lock()
	h.Followed = w.followed
	w.mu.Unlock()
	query(t, w, `SELECT id, key, payload, follows IS NOT NULL FROM leasehold.tasks WHERE type = '`+kindFollow+`' ORDER BY id`,
		func(rows pgx.Rows) error {
			var r history.FollowRow
			var payload json.RawMessage
			if err := rows.Scan(&r.ID, &r.Key, &payload, &r.Follower); err != nil {
				return err
			}
			var p followPayload
			err := json.Unmarshal(payload, &p)
			r.N = p.N
			h.FollowRows = append(h.FollowRows, r)
			return err
		})
}
