package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// lookView is a look at a plan with all that differs between two stores that are right taken out: places for numbers, and halves of a
// step for times.
type lookView struct {
	Spec                        store.ChunkSpec
	Plan                        store.ChunkPlan
	GrowAt, RepeatAt, HeldUntil int
	Live, Whole                 int
	Obstacles                   []store.ChunkObstacle
	More, Sampled               bool
	Rows                        int64
	Took                        int
}

func (m *machine) lookView(l *store.ChunkLook, ids taskSide) lookView {
	v := lookView{
		Spec: l.Spec, Plan: l.Plan, Live: l.Live, Whole: l.Whole, More: l.More, Sampled: l.Sampled != "", Rows: l.Rows, Took: inHalves(l.Took),
		GrowAt: fromNow(l.Now, l.Plan.GrowAt), RepeatAt: fromNow(l.Now, l.Plan.RepeatAt), HeldUntil: fromNow(l.Now, l.Plan.HeldUntil),
	}
	v.Plan.Version, v.Plan.Sampled = 0, ""
	v.Plan.GrowAt, v.Plan.RepeatAt, v.Plan.HeldUntil = time.Time{}, time.Time{}, time.Time{}
	for _, o := range l.Obstacles {
		o.ID = int64(place(m.tasks, ids, task.ID(o.ID)))
		v.Obstacles = append(v.Obstacles, o)
	}
	return v
}

type batchSide = func(pair[task.BatchID]) task.BatchID

// batchViews are batches as people see them, and the rows of each.
func (m *machine) batchViews(h Harness, batches batchSide, ids taskSide) (list []store.BatchInfo, rows map[int][]int) {
	ctx := m.t.Context()
	all, err := h.ListBatches(ctx, store.BatchFilter{Limit: 1000})
	require.NoError(m.t, err)
	list, rows = append(list, all...), map[int][]int{}
	for i := range list {
		b := &list[i]
		of, err := h.List(ctx, store.TaskFilter{Batch: b.ID, Limit: 1000})
		require.NoError(m.t, err)
		at := place(m.chunks.batches, batches, b.ID)
		for n := range of {
			rows[at] = append(rows[at], place(m.tasks, ids, of[n].ID))
		}
		b.ID, b.Labels = task.BatchID(at), nil
		if b.EndedAt != nil {
			b.Labels = []byte{byte(halves(b.CreatedAt, *b.EndedAt))}
		}
		b.CreatedAt, b.EndedAt = time.Time{}, nil
	}
	return list, rows
}

// planView is a plan with its passes as operators see them.
type planView struct {
	Plan   store.ChunkPlanInfo
	Passes []store.ChunkPassInfo
}

// planViews are those of all plans, with times and the numbers of batches taken out.
func (m *machine) planViews(h Harness, batches batchSide) (list []planView) {
	plans, err := h.ListChunks(m.t.Context(), store.ChunkPlanFilter{Limit: 10})
	require.NoError(m.t, err)
	for _, p := range plans {
		passes, err := h.ListPasses(m.t.Context(), store.ChunkPassFilter{Plan: p.Name, Limit: 100})
		require.NoError(m.t, err)
		for n := range passes {
			b := &passes[n]
			if b.Batch > 0 {
				b.Batch = task.BatchID(place(m.chunks.batches, batches, b.Batch) + 1)
			}
			b.BeganAt, b.SealedAt, b.EndedAt = time.Time{}, whether(b.SealedAt), whether(b.EndedAt)
		}
		p.Source, p.CreatedAt, p.PausedAt = nil, time.Time{}, whether(p.PausedAt)
		list = append(list, planView{p, append([]store.ChunkPassInfo(nil), passes...)})
	}
	return list
}

// whether is a time that says only whether there is one.
func whether(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return time.Unix(1, 0)
}

// compareChunks asserts that all plans, their ledgers and their batches are the same, and that the same plans have changed.
func (m *machine) compareChunks() {
	for _, name := range []string{"p", "q"} {
		ideal, actual := m.lookPlan(name, 100)
		if ideal == nil {
			continue
		}
		old := m.chunks.versions[name]
		now := pair[version]{ideal: version(ideal.Plan.Version), real: version(actual.Plan.Version)}
		require.Equal(m.t, now.ideal > old.ideal, now.real > old.real, "whether the version of %s rises", name)
		require.GreaterOrEqual(m.t, now.real, old.real, "versions of %s never fall", name)
		m.chunks.versions[name] = now
		ledger := func(h Harness, now time.Time, batches batchSide) (list []ChunkPass) {
			for _, p := range h.ChunkPasses(m.t, name) {
				if p.Batch > 0 {
					p.Batch = task.BatchID(place(m.chunks.batches, batches, p.Batch) + 1)
				}
				if !p.Sealed.IsZero() {
					p.Sealed = time.Time{}.Add(time.Duration(fromNow(now, p.Sealed)) * half)
				}
				list = append(list, p)
			}
			return list
		}
		require.Equal(m.t, ledger(m.ideal, ideal.Now, onIdeal), ledger(m.real, actual.Now, onReal), "the ledger of %s", name)
	}
	require.Equal(m.t, m.planViews(m.ideal, onIdeal), m.planViews(m.real, onReal), "plans and passes as operators see them")
	want, wantRows := m.batchViews(m.ideal, onIdeal, onIdeal)
	got, rows := m.batchViews(m.real, onReal, onReal)
	require.Equal(m.t, want, got, "the list of batches")
	require.Equal(m.t, wantRows, rows, "the rows of batches")
}
