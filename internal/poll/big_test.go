package poll_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// heavy is a store whose statements are cut when they take too long: those with many rows do.
type heavy struct {
	*wire
	most         int // rows
	claims, ends []int
}

var errTooLong = errors.New("canceling statement due to statement timeout")

func (h *heavy) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	n := 0
	for _, w := range c.Wants {
		n += w.N
	}
	if n > h.most {
		return nil, errTooLong
	}
	got, err := h.wire.Claim(ctx, c)
	h.claims = append(h.claims, len(got))
	return got, err
}

func (h *heavy) Settle(ctx context.Context, s task.Session, rows []store.Settlement) ([]store.Answer, error) {
	if len(rows) > h.most {
		return nil, errTooLong
	}
	h.ends = append(h.ends, len(rows))
	return h.wire.Settle(ctx, s, rows)
}

func payload(size int) func(*store.EnqueueRequest) {
	text := json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
	return func(r *store.EnqueueRequest) { r.Payload = text }
}

func TestStatementsThatTakeTooLongGetSmaller(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		h := &heavy{most: 1000}
		r := newRig(t, store, func(r *rig) {
			h.wire = r.wire
			r.opts.Store, r.opts.Workers = h, 200
			r.opts.Types[0].Policy.Timeout = time.Minute
			r.deeds.do = takes(10 * time.Millisecond)
		})
		after(time.Second)
		h.most = 3
		ids := r.insert(300)
		after(time.Minute)
		r.all(ids, task.StateSucceeded, 1)
		h.most = 1000
		ids = r.insert(2000)
		after(20 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}

func TestPayloadsOfUnsettledRowsCount(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) { r.opts.Workers = 4 })
		r.wire.setHook(func(op string) fault {
			if op == "settle" {
				return lostCall
			}
			return none
		})
		ids := r.insert(sized(70, 100), payload(1<<20))
		after(10 * time.Second)
		require.Less(t, len(r.deeds.started()), 60, "of a megabyte each, which their outcomes keep in memory")
		r.wire.setHook(nil)
		after(20 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}

func TestTheFirstClaimIsBoundedInBytes(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		h := &heavy{most: 5000}
		r := newRig(t, store, func(r *rig) {
			h.wire = r.wire
			r.opts.Store, r.opts.Workers = h, 1000
		})
		ids := r.insert(sized(40, 100), payload(1<<20)) // nothing is known of how large they are
		after(5 * time.Second)
		for _, n := range h.claims {
			require.LessOrEqual(t, n, 9, "megabytes of one claim")
		}
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}

// unfit is a store in which some rows are such that no agent can run them.
type unfit struct {
	*wire
	rows map[task.ID]bool
}

func (u *unfit) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	got, err := u.wire.Claim(ctx, c)
	for i := range got {
		if u.rows[got[i].ID] {
			got[i].Payload, got[i].Unfit = nil, "its payload is 160000000 bytes"
		}
	}
	return got, err
}

func TestWhatNoAgentCanRunIsRejectedAndHarmsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		u := &unfit{rows: map[task.ID]bool{}}
		r := newRig(t, store, func(r *rig) {
			u.wire = r.wire
			r.opts.Store, r.opts.Workers = u, 2
		})
		r.wire.setHook(func(op string) fault {
			if op == "claim" {
				return lostCall
			}
			return none
		})
		bad, good := r.insert(3), r.insert(5)
		for _, id := range bad {
			u.rows[id] = true
		}
		r.wire.setHook(nil)
		after(10 * time.Second)
		r.all(bad, task.StateFailed, 0)
		r.all(good, task.StateSucceeded, 1)
		require.Len(t, r.deeds.started(), len(good), "nothing of it is started")
		got, err := store.Get(t.Context(), bad[0])
		require.NoError(t, err)
		require.Contains(t, got.Error, "its payload is 160000000 bytes")
		require.False(t, got.EverStarted)
		r.drain()
	})
}

func TestClaimsAndSettlementsAreBoundedInBytes(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		h := &heavy{most: 5000}
		r := newRig(t, store, func(r *rig) {
			h.wire = r.wire
			r.opts.Store, r.opts.Workers = h, 1000
			r.opts.Types = nil
			for _, name := range []string{"a", "b", "c", "d"} {
				r.opts.Types = append(r.opts.Types, declare(name, 0))
			}
			r.deeds.do = takes(10 * time.Millisecond)
		})
		r.insert(sized(16, 40), payload(1<<20)) // it learns how large they are
		after(time.Second)
		seen, ended := len(h.claims), len(h.ends)
		var ids []task.ID
		for _, name := range []string{"a", "b", "c", "d"} {
			ids = append(ids, r.insert(sized(15, 50), payload(1<<20), of(name))...)
		}
		after(20 * time.Second)
		for _, n := range h.claims[seen:] {
			require.LessOrEqual(t, n, 40, "megabytes of one claim")
		}
		for _, n := range h.ends[ended:] {
			require.LessOrEqual(t, n, 10, "megabytes of one settlement")
		}
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}
