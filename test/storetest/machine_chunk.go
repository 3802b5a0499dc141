package storetest

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// chunked is what a history of chunk plans keeps.
type chunked struct {
	versions map[string]pair[version]
	batches  []pair[task.BatchID]
	steps    []planned // every step that there ever was
}

// planned is a step as it was made of a look at either store. Their times are those of the model.
type planned struct{ ideal, real store.ChunkStep }

func (m *machine) chunkActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"declare":       m.declareChunks,
		"plan":          m.planChunks,
		"plan 2":        m.planChunks,
		"plan 3":        m.planChunks,
		"plan 4":        m.planChunks,
		"batches go 2":  m.batchesGoOn,
		"finish":        m.finish,
		"finish 2":      m.finish,
		"claim 3":       m.claim,
		"repeat a step": m.repeatStep,
		"pause a plan":  m.pausePlan,
		"split":         m.splitChunk,
		"split 2":       m.splitChunk,
		"repeat a split": func(t *rapid.T) {
			m.repeat(t)
			m.addNew()
		},
		"cancel":        func(t *rapid.T) { m.operate(t, "cancelling", m.ideal.Cancel, m.real.Cancel) },
		"retry":         func(t *rapid.T) { m.operate(t, "retrying", m.ideal.Retry, m.real.Retry) },
		"rollback":      func(t *rapid.T) { m.operate(t, "rolling back", m.ideal.Rollback, m.real.Rollback) },
		"batch":         m.operateBatch,
		"batches go on": m.batchesGoOn,
		"much later":    m.batchesMuchLater,
	}
}

func planNames(t *rapid.T) string {
	return rapid.SampledFrom([]string{"p", "p", "p", "q"}).Draw(t, "plan")
}

// chunkDeclaration draws a plan. Most of one name can take each other's place.
func chunkDeclaration(t *rapid.T) store.ChunkDeclaration {
	s := store.ChunkSpec{
		Name: planNames(t), Task: "a", Table: "event", Key: "id", Size: store.ChunkSize{Start: rapid.IntRange(1, 3).Draw(t, "size")}, Ahead: 8,
		Follow: rapid.SampledFrom([]time.Duration{0, step, 2 * step}).Draw(t, "follow"),
	}
	switch rapid.IntRange(0, 15).Draw(t, "another") {
	case 0:
		s.Task = "b"
	case 1:
		s.Table = "other"
	case 2:
		s.Key = "uuid"
	case 3:
		s.Size.Target, s.Size.Min, s.Size.Max = time.Minute, 1, 9
	}
	return store.ChunkDeclaration{Spec: s, Source: store.ChunkSource{Where: rapid.SampledFrom([]string{"", "x"}).Draw(t, "where")}}
}

func (m *machine) declareChunks(t *rapid.T) {
	ctx := m.begin()
	_, s := m.pick(t)
	var list []store.ChunkDeclaration
	for _, one := range rapid.SliceOfN(rapid.Custom(chunkDeclaration), 0, 2).Draw(t, "plans") {
		if !slices.ContainsFunc(list, func(d store.ChunkDeclaration) bool { return d.Spec.Name == one.Spec.Name }) {
			list = append(list, one)
		}
	}
	want, err := m.ideal.DeclareChunks(ctx, s.ideal, list)
	require.NoError(m.t, err)
	got, err := m.real.DeclareChunks(ctx, s.real, list)
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "what becomes of what is declared")
}

// firstPass has the plan p be declared, a pass of it planned, maybe to its end, and some of its chunks finish: most histories are about
// what comes then.
func (m *machine) firstPass(t *rapid.T) {
	ctx := m.begin()
	list := []store.ChunkDeclaration{{Spec: store.ChunkSpec{
		Name: "p", Task: "a", Table: "event", Key: "id", Size: store.ChunkSize{Start: 2}, Ahead: 8, Follow: step,
	}}}
	_, err := m.ideal.DeclareChunks(ctx, m.sessions[0].ideal, list)
	require.NoError(m.t, err)
	_, err = m.real.DeclareChunks(ctx, m.sessions[0].real, list)
	require.NoError(m.t, err)
	ideal, actual := m.lookPlan("p", 100)
	s := store.ChunkStep{Name: "p", Before: ideal.Plan.Version, After: ideal.Plan}
	s.After.Version++
	s.After.Pass, s.After.Planning, s.After.Full = 1, true, true
	for n := range rapid.IntRange(0, 4).Draw(t, "chunks") {
		i := store.ChunkItem{Kind: store.ChunkInsert, Range: store.ChunkRange{After: s.After.Cursor, Through: chunkKey(10 * (n + 1))}, Rows: 2}
		s.Items, s.After.Cursor, s.After.High = append(s.Items, i), i.Range.Through, i.Range.Through
	}
	s.Sealed = rapid.Bool().Draw(t, "sealed")
	s.After.Planning = !s.Sealed
	first := planned{s, s}
	first.real.Before, first.real.After.Version = actual.Plan.Version, actual.Plan.Version+1
	m.applyStep(first)
	m.claimAs(ctx, 0, store.Claim{Wants: []store.Want{{
		Type: "a", Phase: task.Run, N: rapid.IntRange(1, 4).Draw(t, "claimed"), Window: length(t, "window", 5), Policy: m.policy(t, 1),
	}}})
	m.finishAll(t, m.sessions[0], m.holds[:rapid.IntRange(0, len(m.holds)).Draw(t, "finished")])
}

// lookPlan looks at a plan on both stores; nil where there is none.
func (m *machine) lookPlan(name string, limit int) (ideal, actual *store.ChunkLook) {
	ctx := m.t.Context()
	ideal, reasonWant := m.ideal.LookPlan(ctx, name, limit)
	actual, reason := m.real.LookPlan(ctx, name, limit)
	require.Equal(m.t, errors.Is(reasonWant, store.ErrNoChunkPlan), errors.Is(reason, store.ErrNoChunkPlan), "%v, and %v", reasonWant, reason)
	if reasonWant != nil {
		return nil, nil
	}
	require.NoError(m.t, reason)
	require.Equal(m.t, m.lookView(ideal, onIdeal), m.lookView(actual, onReal), "plan %s", name)
	return ideal, actual
}

// planChunks has an agent look and plan, most times.
func (m *machine) planChunks(t *rapid.T) {
	m.begin()
	ideal, actual := m.lookPlan(planNames(t), rapid.SampledFrom([]int{1, 2, 100}).Draw(t, "limit"))
	if ideal == nil {
		t.Skip("there is no such plan")
	}
	s := planned{ideal: m.chunkStep(t, ideal)}
	s.real = s.ideal
	s.real.Before, s.real.After.Version = actual.Plan.Version, actual.Plan.Version+1
	s.real.After.Sampled = actual.Plan.Sampled
	if s.ideal.After.Sampled != ideal.Plan.Sampled {
		s.real.After.Sampled = actual.Sampled
	}
	s.real.Items = nil
	for _, i := range s.ideal.Items {
		if i.Obstacle != nil {
			at := slices.IndexFunc(ideal.Obstacles, func(o store.ChunkObstacle) bool { return o.ID == i.Obstacle.ID })
			i.Obstacle = &actual.Obstacles[at]
		}
		s.real.Items = append(s.real.Items, i)
	}
	m.chunks.steps = append(m.chunks.steps, s)
	if rapid.IntRange(0, 4).Draw(t, "later") > 0 {
		m.applyStep(s)
	}
}

// repeatStep has an agent apply what it made of a look some time ago.
func (m *machine) repeatStep(t *rapid.T) {
	all := m.chunks.steps
	if len(all) == 0 {
		t.Skip("nothing was ever planned")
	}
	m.begin()
	m.applyStep(rapid.SampledFrom(all[max(len(all)-4, 0):]).Draw(t, "step"))
}

func (m *machine) applyStep(s planned) {
	ctx := m.t.Context()
	off := m.real.Now().Sub(m.ideal.Now())
	for _, at := range []*time.Time{&s.real.After.GrowAt, &s.real.After.RepeatAt, &s.real.After.HeldUntil} {
		if !at.IsZero() {
			*at = at.Add(off).Truncate(time.Millisecond)
		}
	}
	s.ideal.Batch, s.real.Batch = 0, 0
	want, reasonWant := m.ideal.ApplyChunks(ctx, &s.ideal)
	got, reason := m.real.ApplyChunks(ctx, &s.real)
	require.Equal(m.t, reasonWant == nil, reason == nil, "%v, and %v", reasonWant, reason)
	require.Equal(m.t, want, got, "whether the step applies: %+v", s.ideal)
	m.addNew()
	if !want || s.ideal.Batch == 0 {
		return
	}
	at := place(m.chunks.batches, onIdeal, s.ideal.Batch)
	require.Equal(m.t, at, place(m.chunks.batches, onReal, s.real.Batch), "the batch of the step")
	if at < 0 {
		m.chunks.batches = append(m.chunks.batches, pair[task.BatchID]{real: s.real.Batch, ideal: s.ideal.Batch})
	}
}

// chunkStep makes a step of a look at the model, as an agent does whose table has any rows.
func (m *machine) chunkStep(t *rapid.T, look *store.ChunkLook) store.ChunkStep {
	p := &look.Plan
	s := store.ChunkStep{Name: look.Spec.Name, Before: p.Version, After: *p}
	s.After.Version, s.After.Paused = s.Before+1, false
	s.After.Holder, s.After.HeldUntil = rapid.SampledFrom([]string{"first", "further"}).Draw(t, "holder"), look.Now.Add(length(t, "held", 1))
	if !p.Planning {
		s.After.Pass++
		s.After.Planning, s.After.Chunks, s.After.Cost, s.After.Sizes = true, 0, 0, nil
		s.After.Full = p.Pass == 0 || p.High == nil || rapid.IntRange(0, 3).Draw(t, "grow") > 0
		s.After.From = p.High
		if s.After.Full {
			s.After.From = nil
		}
		s.After.Cursor = s.After.From
		if rapid.IntRange(0, 3).Draw(t, "only that") == 0 {
			return s
		}
	}
	w := &chunkWalk{t: t, s: &s, look: look, at: keyNumber(s.After.Cursor)}
	ended := w.run()
	if look.Sampled != "" && rapid.Bool().Draw(t, "sampled") {
		s.After.Sampled = look.Sampled
	}
	s.After.Size, s.After.PerRow = rapid.IntRange(1, 9).Draw(t, "rows of the next"), 0.5
	s.After.Sizes = append(slices.Clone(s.After.Sizes), s.After.Size)
	s.After.Cost += time.Second
	if ended && rapid.Bool().Draw(t, "sealed") {
		s.Sealed, s.After.Planning, s.After.Holder, s.After.HeldUntil = true, false, "", time.Time{}
		if keyNumber(s.After.Cursor) > keyNumber(p.High) {
			s.After.High = s.After.Cursor
		}
		s.After.Over = look.Spec.Follow == 0
		s.After.GrowAt, s.After.RepeatAt = look.Now.Add(length(t, "grow", 2)), look.Now.Add(length(t, "repeat", 4))
		s.After.Rest = length(t, "rest", 2)
	}
	if n := len(s.Items); n > 0 && rapid.IntRange(0, 19).Draw(t, "wrong") == 0 {
		s.Items[n-1].Range.After = chunkKey(1000)
	}
	return s
}

// keyNumber is the number that a key is; 0: there is none.
func keyNumber(k *store.ChunkKey) int {
	if k == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(*k))
	return n
}

// chunkWalk adds items to a step.
type chunkWalk struct {
	t    *rapid.T
	s    *store.ChunkStep
	look *store.ChunkLook
	at   int
}

// run adds some items, around the obstacles of a pass over the whole table. It reports whether it has come past all of these.
func (w *chunkWalk) run() (past bool) {
	room := rapid.IntRange(0, 5).Draw(w.t, "items")
	if w.look.Plan.Planning && w.look.Plan.Full || w.s.After.Full {
		for i := range w.look.Obstacles {
			o := &w.look.Obstacles[i]
			from, to := keyNumber(o.Range.After), keyNumber(o.Range.Through)
			for ; w.at < from && room > 0; room-- {
				w.add(min(w.at+rapid.IntRange(1, 20).Draw(w.t, "keys"), from), nil)
			}
			if room--; room < 0 {
				return false
			}
			if w.at < to {
				w.add(to, o)
			}
		}
		if w.look.More {
			return false
		}
	}
	for ; room > 0; room-- {
		w.add(w.at+rapid.IntRange(1, 20).Draw(w.t, "keys"), nil)
	}
	return true
}

// add adds an item up to a key, over an obstacle or none.
func (w *chunkWalk) add(to int, o *store.ChunkObstacle) {
	i := store.ChunkItem{
		Kind:  rapid.SampledFrom([]store.ChunkItemKind{store.ChunkInsert, store.ChunkInsert, store.ChunkGap}).Draw(w.t, "kind"),
		Range: store.ChunkRange{After: w.s.After.Cursor, Through: chunkKey(to)}, Obstacle: o,
	}
	if o != nil && (o.State == store.ChunkLive || rapid.IntRange(0, 2).Draw(w.t, "skip") == 0) {
		i.Kind, i.Rows = store.ChunkSkip, o.Rows
	}
	if i.Kind == store.ChunkInsert {
		i.Rows = rapid.IntRange(1, 9).Draw(w.t, "rows")
		w.s.After.Chunks++
	}
	w.s.Items, w.s.After.Cursor, w.at = append(w.s.Items, i), i.Range.Through, to
}
