package model

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ChunkPlan is a row of the table chunk_plan.
type ChunkPlan struct {
	store.ChunkSpec

	Declared int             // number of the declaration in force
	State    store.ChunkPlan // Planning and what follows: of the newest pass
	PausedAt time.Time
	PausedBy string

	CreatedAt time.Time
	Passes    map[int]*ChunkPass
	Done      store.ChunkSums
}

// ChunkPass is a row of the ledger.
type ChunkPass struct {
	Pass           int
	Full           bool
	From, Through  *store.ChunkKey
	First, Last    *store.ChunkKey // of the table
	Sizes          []int
	Ranges, Chunks int
	Rows           int64
	Cost           time.Duration
	Batch          task.BatchID // 0: the next chunk gets a new one
	Began          time.Time
	Sealed         time.Time // zero: it is being planned
}

// Chunk is a row of the table chunk_range.
type Chunk struct {
	Plan           string
	Pass, Planned  int
	Step           int64
	Item           int
	Part           string
	Range          store.ChunkRange
	Rows, Failures int
	State          string // "open", or as it was noted
}

const openChunk = "open"

// AddChunkPlan declares a plan.
func (s *Store) AddChunkPlan(spec store.ChunkSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans[spec.Name] = newChunkPlan(spec, s.clock(), 0)
}

func newChunkPlan(spec store.ChunkSpec, now time.Time, declared int) *ChunkPlan {
	return &ChunkPlan{
		ChunkSpec: spec, Declared: declared, State: store.ChunkPlan{Version: now.UnixMicro() << 10}, CreatedAt: now, Passes: map[int]*ChunkPass{},
	}
}

// PauseChunkPlan makes a plan one of which nothing is planned.
func (s *Store) PauseChunkPlan(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.plans[name]
	p.State.Version++
	p.PausedAt = s.clock()
}

// ChunkPasses returns the ledger of a plan, by pass.
func (s *Store) ChunkPasses(name string) (list []ChunkPass) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(s.plans[name].Passes)) {
		list = append(list, *s.plans[name].Passes[n])
	}
	return list
}

// planning is the pass that is being planned; nil: none.
func (p *ChunkPlan) planning() *ChunkPass {
	if pass := p.Passes[p.State.Pass]; pass != nil && pass.Sealed.IsZero() {
		return pass
	}
	return nil
}

// halted reports whether nothing is planned of a plan.
func (s *Store) halted(p *ChunkPlan) bool {
	pass := p.planning()
	return !p.PausedAt.IsZero() || pass != nil && pass.Batch != 0 && s.admits(pass.Batch) != nil
}

// LookPlan returns a plan and its obstacles.
func (s *Store) LookPlan(ctx context.Context, name string, limit int) (*store.ChunkLook, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	p := s.plans[name]
	if p == nil {
		return nil, store.ErrNoChunkPlan
	}
	look := &store.ChunkLook{Spec: p.ChunkSpec, Plan: p.State, Now: now}
	look.Plan.Paused = s.halted(p)
	below := p.State.Pass + 1
	if pass := p.planning(); pass != nil {
		look.Plan.Planning, look.Plan.Full, look.Plan.From, look.Plan.Cursor = true, pass.Full, pass.From, pass.Through
		look.Plan.Chunks, look.Plan.Cost, look.Plan.Sizes = pass.Chunks, pass.Cost, pass.Sizes
		below--
		if pass.Full {
			look.Whole = s.lastWhole(p, below)
		}
	}
	look.Sample(p.Done)
	for _, id := range s.chunksOf(name) {
		c := s.chunks[id]
		if s.live[id] != nil {
			look.Live++
		}
		if o, ok := s.obstacle(id); ok && c.Pass < below {
			look.Obstacles = append(look.Obstacles, o)
		}
	}
	if look.More = len(look.Obstacles) > limit; look.More {
		look.Obstacles = look.Obstacles[:limit]
	}
	return look, nil
}

// lastWhole is the last pass over the whole table before one that has planned or skipped something. Of those that have planned something, it is
// the first of those that a look goes back; 0: there are fewer.
func (s *Store) lastWhole(p *ChunkPlan, below int) (last int) {
	for _, id := range s.chunksOf(p.Name) {
		if c := s.chunks[id]; c.Pass < below && c.Pass != c.Planned {
			last = max(last, c.Pass)
		}
	}
	passes := slices.DeleteFunc(slices.Sorted(maps.Keys(p.Passes)), func(n int) bool { return n >= below })
	passes = passes[max(len(passes)-store.ChunkPassesBack, 0):]
	for _, n := range slices.Backward(passes) {
		if p.Passes[n].Full {
			return max(last, n)
		}
	}
	if len(passes) == store.ChunkPassesBack {
		return max(last, passes[0])
	}
	return last
}

// chunksOf lists the chunks of a plan in the order of their places, but those that are noted as over.
func (s *Store) chunksOf(plan string) (ids []task.ID) {
	for id, c := range s.chunks {
		if c.Plan == plan && c.State != string(store.ChunkOver) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(x, y task.ID) int {
		a, b := s.chunks[x], s.chunks[y]
		return cmp.Or(cmp.Compare(a.Pass, b.Pass), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Part, b.Part))
	})
	return ids
}

// obstacle is a chunk as later passes see it.
func (s *Store) obstacle(id task.ID) (o store.ChunkObstacle, ok bool) {
	c := s.chunks[id]
	if c == nil {
		return o, false
	}
	o = store.ChunkObstacle{ID: int64(id), Pass: c.Pass, Range: c.Range, Rows: c.Rows, Failures: c.Failures}
	var state task.State
	var cause task.Verdict
	if r := s.archive[id]; r != nil {
		state, cause = r.State, r.Cause
	}
	return o, c.State != string(store.ChunkOver) && o.Standing(s.live[id] != nil, c.State, state, cause)
}

// ApplyChunks applies a step to what was seen.
func (s *Store) ApplyChunks(ctx context.Context, step *store.ChunkStep) (bool, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return false, err
	}
	p := s.plans[step.Name]
	if p == nil || p.State.Version != step.Before || s.halted(p) {
		return false, nil
	}
	pass := p.planning()
	var cursor *store.ChunkKey
	if pass != nil {
		cursor = pass.Through
	}
	if begins, err := step.Begins(p.State.Pass, pass != nil, cursor); err != nil {
		return false, err
	} else if begins {
		pass = &ChunkPass{
			Began: now, Pass: step.After.Pass, Full: step.After.Full, From: step.After.From, First: step.First, Last: step.Last,
		}
	}
	for _, id := range step.Again() {
		if o, ok := s.obstacle(task.ID(id)); !ok || o.State != store.ChunkFailed {
			return false, nil
		}
	}
	s.noteChunks(p)
	p.Passes[pass.Pass] = pass
	for n := range step.Items {
		s.planRange(p, pass, step, n, now)
	}
	chunks, rows := step.Planned()
	pass.Through, pass.Cost, pass.Sizes = step.After.Cursor, step.After.Cost, step.After.Sizes
	pass.Ranges += len(step.Items)
	pass.Chunks += chunks
	pass.Rows += rows
	p.State = step.After
	if step.Sealed {
		pass.Sealed = now
		if b := s.batches[pass.Batch]; b != nil {
			b.Sealed = true
			s.notify(store.CancelNews)
		}
		if pass.Chunks == 0 {
			delete(p.Passes, pass.Pass)
		}
	}
	if p.planning() == nil {
		p.State.Planning, p.State.Full, p.State.From, p.State.Cursor, p.State.Chunks, p.State.Cost = false, false, nil, nil, 0, 0
		p.State.Sizes = nil
	}
	return true, s.fail(afterSettle)
}

// noteChunks notes what has become of chunks whose tasks have finished.
func (s *Store) noteChunks(p *ChunkPlan) {
	for _, id := range s.chunksOf(p.Name) {
		c, r := s.chunks[id], s.archive[id]
		if r == nil || c.State != openChunk {
			continue
		}
		f := store.FinishedChunk{Task: id, Rows: c.Rows, State: r.State, Cause: r.Cause}
		if !r.StartedAt.IsZero() {
			f.Took = r.FinishedAt.Sub(r.StartedAt)
		}
		c.State = string(f.Note(&p.Done))
	}
}

// planRange does what a step does with one range.
func (s *Store) planRange(p *ChunkPlan, pass *ChunkPass, step *store.ChunkStep, n int, now time.Time) {
	i := &step.Items[n]
	if i.Obstacle != nil {
		old := s.chunks[task.ID(i.Obstacle.ID)]
		if i.Kind == store.ChunkSkip {
			if old == nil {
				return // it is past its retention
			}
			old.Pass, old.Step, old.Item, old.Part = pass.Pass, step.After.Version, n, ""
			return
		}
		old.State = string(store.ChunkOver)
	}
	if i.Kind != store.ChunkInsert {
		return
	}
	if pass.Batch == 0 {
		s.lastBatch++
		b, _ := makeBatch(store.BatchRequest{ // whose values are good
			Name: store.ChunkBatchName(p.Name, pass.Pass), Open: true, CreatedBy: store.ChunkCreator(p.Name),
		}, now)
		b.ID, pass.Batch = s.lastBatch, s.lastBatch
		s.batches[b.ID] = b
	}
	step.Batch = pass.Batch
	row, _ := makeRow(store.EnqueueRequest{ // likewise
		Type: p.Task, Payload: p.Payload(pass.Pass, i.Range, i.Rows), Batch: pass.Batch, CreatedBy: store.ChunkCreator(p.Name),
	}, now)
	s.add(row)
	s.chunks[row.ID] = &Chunk{
		Plan: p.Name, Pass: pass.Pass, Planned: pass.Pass, Step: step.After.Version, Item: n, Range: i.Range, Rows: i.Rows,
		Failures: i.Failures(), State: openChunk,
	}
}

// noteFailedChunks notes which of the open chunks have failed.
func (s *Store) noteFailedChunks() {
	for id, c := range s.chunks {
		if r := s.archive[id]; r != nil && c.State == openChunk && store.ChunkFailedFor(r.State, r.Cause) {
			c.State = string(store.ChunkFailed)
		}
	}
}

// forgetChunks removes chunks whose batch is gone, but those that have failed.
func (s *Store) forgetChunks(retention time.Duration, now time.Time) {
	for id, c := range s.chunks {
		pass := s.plans[c.Plan].Passes[c.Planned]
		if pass != nil && !pass.Sealed.IsZero() && now.Sub(pass.Sealed) > retention && s.batches[pass.Batch] == nil &&
			s.live[id] == nil && c.State != string(store.ChunkFailed) {
			delete(s.chunks, id)
		}
	}
}
