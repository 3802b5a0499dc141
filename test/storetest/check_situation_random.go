package storetest

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// randomSituations is how many waiting tasks are explained before a claim shows whether it was true.
const randomSituations = 1000

// whyAtRandom makes situations at random, and has claims show whether the reasons were true: what was said to be held back is not claimed, and what
// nothing is in the way of is.
func whyAtRandom(t testing.TB, h Harness) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &situations{sequenceRig: newSequenceRig(t, h), rand: rand.New(rand.NewPCG(seed, 1))}
	s.limits(limited("limited", 1), store.TypeLimit{Name: "rated", Types: []string{"rated"}, Rate: 0.0001, Burst: 10})
	bars := map[string]int{}
	n := 0
	kinds := []string{"none", "after", "batch", "limit", "lock", "not_due", "rate", "sequence"}
	lacks := func() bool {
		return slices.ContainsFunc(kinds, func(k string) bool { return bars[k] == 0 }) && n < 20*randomSituations
	}
	for n < randomSituations || lacks() {
		s.rows()
		s.batchStops()
		c := s.wants()
		all := explain(s.ctx, t, h, -1, 0)
		n += len(all)
		got, err := h.Claim(s.ctx, c)
		require.NoError(t, err)
		agrees(t, all, c, got)
		for _, x := range all {
			for _, b := range x.bars {
				bars[string(b)]++
			}
			if len(x.bars) == 0 {
				bars["none"]++
			}
		}
		s.running = append(s.running, got...)
		s.settle()
	}
	t.Logf("what was in the way: %v", bars)
	require.Less(t, n, 20*randomSituations, "there is some of each kind: %v", bars)
}

type situations struct {
	*sequenceRig

	rand    *rand.Rand
	ids     []task.ID
	batches []task.BatchID
	running []task.Task
}

func (s *situations) one(of ...string) string { return of[s.rand.IntN(len(of))] }

// rows inserts some rows, of which each may have to wait for one thing or another.
func (s *situations) rows() {
	now := strconv.FormatInt(s.claims/16, 10) // of a sequence: one that is blocked stays so, and others come
	for range 4 + s.rand.IntN(8) {
		q := store.EnqueueRequest{
			Type: s.one(kind, kind, "limited", "limited", "rated"), Region: s.one("", "", "", "sg"), Priority: s.rand.IntN(3),
			Tenant: s.one("", "", "t1", "t2"),
		}
		if s.rand.IntN(8) == 0 {
			q.In = time.Hour
		}
		if q.Type == kind {
			q.Sequence, q.Lock = s.one("", "", "", "s"+now, "r"+now), s.one("", "", "l1", "l2")
			if len(s.ids) > 0 && s.rand.IntN(5) == 0 {
				q.After = []task.ID{s.ids[s.rand.IntN(len(s.ids))]}
			}
		}
		s.ids = append(s.ids, s.Insert(s.t, q)...)
	}
	if s.rand.IntN(2) == 0 {
		id, _ := s.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind, In: time.Hour})
		s.batches = append(s.batches, id)
	}
}

// batchStops cancels a batch now and then.
func (s *situations) batchStops() {
	if len(s.batches) == 0 || s.rand.IntN(2) != 0 {
		return
	}
	_, err := s.CancelBatch(s.ctx, s.batches[s.rand.IntN(len(s.batches))], "")
	require.NoError(s.t, err)
}

// wants is a claim of a few rows, or of many, of some types or all.
func (s *situations) wants() store.Claim {
	s.claims++
	c := store.Claim{Session: s.session, Number: s.claims, Region: s.one("", "sg"), Limited: map[string]store.Room{}, Cut: new(bool)}
	for _, typ := range []string{kind, "limited", "rated"} {
		if s.rand.IntN(4) > 0 {
			c.Wants = append(c.Wants, want(typ, 1+s.rand.IntN(60)))
		}
	}
	if len(c.Wants) == 0 {
		c.Wants = append(c.Wants, want(kind, 100))
	}
	return c
}

// settle ends some of what runs, and has agents do what follows from that, or not yet.
func (s *situations) settle() {
	var left []task.Task
	for _, row := range s.running {
		switch s.rand.IntN(6) {
		case 0, 1:
			s.settled(finish(row))
		case 2:
			s.settled(fails(row))
		case 3:
			s.settled(retry(row, time.Hour))
		default:
			left = append(left, row)
		}
	}
	s.running = left
	if s.rand.IntN(3) > 0 {
		_, err := s.Promote(s.ctx, 1000)
		require.NoError(s.t, err)
	}
	if s.rand.IntN(3) > 0 {
		_, err := s.Unblock(s.ctx, 1000)
		require.NoError(s.t, err)
	}
}
