package chunk_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/store"
)

// row is a chunk in the store.
type row struct {
	id        int64
	pass, seq int
	planned   int    // the pass that did
	part      string // in the place of a range that was split
	r         store.ChunkRange
	rows      int
	state     string // live, failed, done, split; again: planned anew, gone: nothing was left
	failures  int
	stray     bool // an operator has brought it back after it was planned again, or one that overlaps it
}

// memory is a store of one plan.
type memory struct {
	t     require.TestingT
	spec  store.ChunkSpec
	plan  store.ChunkPlan
	now   time.Time
	rows  []*row
	cover Cover // of the pass
	seq   int
	ends  int // passes that were sealed
	whole int // the last one over the whole table that was, and has planned something
}

func num(k *chunk.Key) int {
	if k == nil {
		return -1
	}
	n, _ := strconv.Atoi(string(*k))
	return n
}

func (m *memory) live() (list []*row) {
	for _, r := range m.rows {
		if r.state == "live" {
			list = append(list, r)
		}
	}
	return list
}

func (m *memory) LookPlan(_ context.Context, _ string, limit int) (*store.ChunkLook, error) {
	look := &store.ChunkLook{Spec: m.spec, Plan: m.plan, Now: m.now, Live: len(m.live())}
	var list []*row
	for _, r := range m.rows {
		if (r.state == "live" || r.state == "failed") && (!m.plan.Planning || r.pass < m.plan.Pass) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.pass, b.pass), cmp.Compare(a.seq, b.seq), cmp.Compare(a.part, b.part))
	})
	limit = max(limit/30, 1) // 3, and twice as many for each wider look
	look.More = len(list) > limit
	if m.plan.Planning && m.plan.Full {
		look.Whole = m.whole
		for _, r := range list {
			if r.pass != r.planned {
				look.Whole = max(look.Whole, r.pass)
			}
		}
	}
	for _, r := range list[:min(limit, len(list))] {
		look.Obstacles = append(look.Obstacles, store.ChunkObstacle{
			ID: r.id, Pass: r.pass, Range: r.r, Rows: r.rows, State: store.ChunkState(r.state), Failures: r.failures,
		})
	}
	return look, nil
}

func (m *memory) ApplyChunks(ctx context.Context, s *store.ChunkStep) (bool, error) {
	if m.plan.Version != s.Before {
		return false, nil
	}
	for _, i := range s.Items {
		if i.Obstacle != nil && m.rows[i.Obstacle.ID].state != string(i.Obstacle.State) {
			return false, nil
		}
	}
	if s.After.Pass != m.plan.Pass {
		require.False(m.t, m.plan.Planning)
		require.Equal(m.t, m.plan.Pass+1, s.After.Pass)
		m.cover = Cover{From: s.After.From, Compare: (&ints{}).Compare}
		require.True(m.t, s.After.Full && s.After.From == nil || !s.After.Full && num(s.After.From) == num(m.plan.High))
	}
	for _, i := range s.Items {
		require.NoError(m.t, m.cover.Add(ctx, i.Range))
		m.seq++
		failures := 0
		if o := i.Obstacle; o != nil {
			failures = o.Failures
			old := m.rows[o.ID]
			switch i.Kind {
			case store.ChunkSkip:
				old.pass, old.seq = s.After.Pass, m.seq
				continue
			case store.ChunkGap:
				old.state = "gone"
				continue
			case store.ChunkInsert:
				require.Equal(m.t, "failed", old.state)
				require.Less(m.t, old.failures, 3, "a range that is held is planned")
				old.state = "again"
			}
		}
		if i.Kind == store.ChunkGap {
			continue
		}
		require.Equal(m.t, store.ChunkInsert, i.Kind)
		for _, other := range m.rows {
			if other.state == "live" || other.state == "failed" && (other.failures >= 3 || other.pass < s.After.Pass && !other.stray) {
				apart := num(i.Range.Through) <= num(other.r.After) || num(other.r.Through) <= num(i.Range.After)
				require.True(m.t, apart, "(%d, %d] is planned in (%d, %d], which is %s", num(i.Range.After), num(i.Range.Through),
					num(other.r.After), num(other.r.Through), other.state)
			}
		}
		m.rows = append(m.rows, &row{
			id: int64(len(m.rows)), pass: s.After.Pass, planned: s.After.Pass, seq: m.seq, r: i.Range, rows: i.Rows, state: "live", failures: failures,
		})
	}
	require.Equal(m.t, num(s.After.Cursor), num(m.cover.End()))
	require.LessOrEqual(m.t, len(m.live()), m.spec.Ahead+splits(m))
	if s.Sealed {
		m.ends++
		if m.plan.Full && s.After.Chunks > 0 {
			m.whole = m.plan.Pass
		}
	}
	m.plan = s.After
	return true, nil
}

func splits(m *memory) (n int) {
	for _, r := range m.rows {
		if r.state == "split" {
			n++
		}
	}
	return n
}

// ints is a source of numbers: true where the condition finds them.
type ints struct {
	todo   map[int]bool
	slice  int    // rows that are read before it looks at the clock; 0: all
	during func() // what happens while it reads
	cuts   int
}

func (s *ints) keys() (list []int) {
	for k := range s.todo {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

func (s *ints) Check(context.Context) error               { return nil }
func (s *ints) Throttled(context.Context) (string, error) { return "", nil }
func (s *ints) Close()                                    {}
func (s *ints) Compare(_ context.Context, a, b chunk.Key) (int, error) {
	return cmp.Compare(num(&a), num(&b)), nil
}

func (s *ints) Order(_ context.Context, keys []chunk.Key) ([]int, error) {
	places := make([]int, len(keys))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(num(&keys[a]), num(&keys[b])) })
	return places, nil
}

func (s *ints) Ends(context.Context) (first, last *chunk.Key, err error) {
	if list := s.keys(); len(list) > 0 {
		first, last = new(chunk.Key(strconv.Itoa(list[0]))), new(chunk.Key(strconv.Itoa(list[len(list)-1])))
	}
	return first, last, nil
}

func (s *ints) Count(_ context.Context, r chunk.Range, _ int) (n int, err error) {
	for k, todo := range s.todo {
		if todo && k > num(r.After) && (r.Through == nil || k <= num(r.Through)) {
			n++
		}
	}
	return n, nil
}

func (s *ints) Cut(_ context.Context, after, limit *chunk.Key, n, most int) (out chunk.Cuts, err error) {
	s.cuts++
	rows, read, last := 0, 0, 0
	for _, k := range s.keys() {
		if k <= num(after) || limit != nil && k > num(limit) {
			continue
		}
		if s.slice > 0 && read == s.slice {
			if rows > 0 {
				out.Cuts = append(out.Cuts, chunk.Cut{Through: chunk.Key(strconv.Itoa(last)), Rows: rows})
			} else {
				out.Seen = new(chunk.Key(strconv.Itoa(k - 1)))
			}
			s.happen()
			return out, nil
		}
		if read++; !s.todo[k] {
			continue
		}
		if rows, last = rows+1, k; rows == n {
			out.Cuts, rows = append(out.Cuts, chunk.Cut{Through: chunk.Key(strconv.Itoa(k)), Rows: n}), 0
			if len(out.Cuts) == most {
				s.happen()
				return out, nil
			}
		}
	}
	if rows > 0 {
		out.Cuts = append(out.Cuts, chunk.Cut{Through: chunk.Key(strconv.Itoa(last)), Rows: rows})
	}
	out.Done = true
	s.happen()
	return out, nil
}

func (s *ints) happen() {
	if f := s.during; f != nil {
		s.during = nil
		f()
	}
}

func (s *ints) Middle(_ context.Context, r chunk.Range, _ int) (chunk.Key, bool, error) {
	var in []int
	for _, k := range s.keys() {
		if s.todo[k] && k > num(r.After) && k <= num(r.Through) {
			in = append(in, k)
		}
	}
	if len(in) < 2 {
		return "", false, nil
	}
	return chunk.Key(strconv.Itoa(in[(len(in)-1)/2])), true, nil
}

// flaky is a store that an agent reaches badly.
type flaky struct {
	*memory
	next string // what becomes of the next step: "" well, lost: applied without a reply, failed: not applied
}

var errFlaky = errors.New("connection lost")

func (f *flaky) ApplyChunks(ctx context.Context, s *store.ChunkStep) (bool, error) {
	how := f.next
	f.next = ""
	if how == "failed" {
		return false, errFlaky
	}
	ok, err := f.memory.ApplyChunks(ctx, s)
	if how == "lost" {
		return false, errFlaky
	}
	return ok, err
}

// world is two agents on one store.
type world struct {
	m      *memory
	src    *ints
	agents [2]*chunk.Engine
	wires  [2]*flaky
	starts int
}

func newWorld(t require.TestingT, spec store.ChunkSpec) *world {
	w := &world{
		m:   &memory{t: t, spec: spec, now: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)},
		src: &ints{todo: map[int]bool{}},
	}
	w.m.plan.Size = spec.Size.Start
	for i := range w.agents {
		w.start(i)
	}
	return w
}

// start starts an agent, in the place of one that died.
func (w *world) start(i int) {
	w.starts++
	w.wires[i] = &flaky{memory: w.m}
	w.agents[i] = chunk.NewEngine(w.wires[i], fmt.Sprint("agent ", w.starts))
}

func (w *world) turn(t require.TestingT, i int) chunk.Turn {
	did, err := w.agents[i].Turn(context.Background(), "p", w.src)
	if err != nil {
		require.ErrorIs(t, err, errFlaky)
	}
	return did
}

// succeed ends a chunk: its rows are done.
func (w *world) succeed(r *row) {
	for k := range w.src.todo {
		if k > num(r.r.After) && k <= num(r.r.Through) {
			w.src.todo[k] = false
		}
	}
	r.state = "done"
}

func (w *world) split(t require.TestingT, r *row) {
	at, err := chunk.SplitAt(context.Background(), w.src, r.r, r.rows)
	if errors.Is(err, store.ErrNoChunk) {
		return
	}
	require.NoError(t, err)
	cover := Cover{From: r.r.After, Compare: w.src.Compare}
	r.state = "split"
	for _, h := range (&store.ChunkPlace{Part: r.part, Range: r.r}).Halves(at) {
		require.NoError(t, cover.Add(context.Background(), h.Range))
		w.m.rows = append(w.m.rows, &row{
			id: int64(len(w.m.rows)), pass: r.pass, planned: r.planned, seq: r.seq, part: h.Part, r: h.Range, rows: h.Rows,
			state: "live", failures: r.failures, stray: r.stray,
		})
	}
	require.Equal(t, num(r.r.Through), num(cover.End()))
}

// settle lets everything go well, and returns the rows that are left.
func (w *world) settle(t require.TestingT, rounds int) (left []int) {
	for range rounds {
		for i := range w.agents {
			for range 20 {
				if !w.turn(t, i).Busy {
					break
				}
			}
		}
		for _, r := range w.m.live() {
			w.succeed(r)
		}
		w.m.now = w.m.now.Add(10 * time.Second)
	}
	for _, k := range w.src.keys() {
		if w.src.todo[k] {
			left = append(left, k)
		}
	}
	return left
}

func TestTwoAgentsThatRaceAndDieCoverEachRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, store.ChunkSpec{
			Name: "p", Size: store.ChunkSize{Start: rapid.IntRange(1, 5).Draw(t, "size")},
			Ahead: rapid.IntRange(1, 8).Draw(t, "ahead"), Follow: 30 * time.Second,
		})
		pick := func(t *rapid.T, list []*row) *row {
			if len(list) == 0 {
				t.Skip("none")
			}
			return list[rapid.IntRange(0, len(list)-1).Draw(t, "which")]
		}
		which := rapid.IntRange(0, 1)
		pass := rapid.SampledFrom([]time.Duration{time.Second, 11 * time.Second, time.Minute})
		actions := map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				for _, k := range rapid.SliceOfN(rapid.IntRange(0, 300), 1, 40).Draw(t, "keys") {
					if _, old := w.src.todo[k]; !old {
						w.src.todo[k] = true
					}
				}
			},
			"turn": func(t *rapid.T) { w.turn(t, which.Draw(t, "agent")) },
			"race": func(t *rapid.T) { // while one reads, time goes by and the other plans
				i := which.Draw(t, "agent")
				w.src.during = func() {
					w.m.now = w.m.now.Add(11 * time.Second)
					for range 3 {
						w.turn(t, 1-i)
					}
				}
				w.turn(t, i)
				w.src.during = nil
			},
			"fails during a look": func(t *rapid.T) {
				w.src.during = func() {
					for _, r := range w.m.live() {
						r.state, r.failures = "failed", r.failures+1
					}
				}
				w.turn(t, which.Draw(t, "agent"))
				w.src.during = nil
			},
			"lose": func(t *rapid.T) {
				i := which.Draw(t, "agent")
				w.wires[i].next = rapid.SampledFrom([]string{"lost", "failed"}).Draw(t, "how")
				w.turn(t, i)
			},
			"die":     func(t *rapid.T) { w.start(which.Draw(t, "agent")) },
			"time":    func(t *rapid.T) { w.m.now = w.m.now.Add(pass.Draw(t, "passes")) },
			"slice":   func(t *rapid.T) { w.src.slice = rapid.SampledFrom([]int{0, 1, 7}).Draw(t, "rows") },
			"succeed": func(t *rapid.T) { w.succeed(pick(t, w.m.live())) },
			"fail": func(t *rapid.T) {
				r := pick(t, w.m.live())
				r.state, r.failures = "failed", r.failures+1
			},
			"split": func(t *rapid.T) { w.split(t, pick(t, w.m.live())) },
			"retry": func(t *rapid.T) {
				var list []*row
				for _, r := range w.m.rows {
					if r.state == "failed" {
						list = append(list, r)
					}
				}
				pick(t, list).state = "live"
			},
			"bring back": func(t *rapid.T) {
				var list []*row
				for _, r := range w.m.rows {
					if r.state == "again" || r.state == "gone" {
						list = append(list, r)
					}
				}
				r := pick(t, list)
				r.state = "live"
				for _, other := range w.m.rows {
					other.stray = other.stray || num(other.r.After) < num(r.r.Through) && num(r.r.After) < num(other.r.Through)
				}
			},
		}
		t.Repeat(actions)
		w.src.slice = rapid.SampledFrom([]int{0, 5}).Draw(t, "slices at the end")
		left := w.settle(t, 60+2*len(w.src.todo)) // as many rounds as there are rows, where size and ahead are 1
		for _, r := range w.m.rows {              // what is left is in ranges that are held
			if r.state == "failed" && r.failures >= 3 {
				left = slices.DeleteFunc(left, func(k int) bool { return k > num(r.r.After) && k <= num(r.r.Through) })
				r.state = "live"
			}
		}
		require.Empty(t, left)
		require.Empty(t, w.settle(t, 30))
	})
}

func TestOnePassIsOver(t *testing.T) {
	w := newWorld(t, store.ChunkSpec{Name: "p", Size: store.ChunkSize{Start: 10}, Ahead: 4})
	for k := range 101 {
		w.src.todo[k*3] = true
	}
	require.Empty(t, w.settle(t, 10))
	require.True(t, w.m.plan.Over)
	require.Equal(t, 1, w.m.ends)
	require.Len(t, w.m.rows, 11)
	require.Equal(t, 300, num(w.m.plan.High))
	w.src.todo[1000] = true
	require.Equal(t, []int{1000}, w.settle(t, 10))
}

func TestARangeThatFailsInThreePassesIsHeld(t *testing.T) {
	w := newWorld(t, store.ChunkSpec{Name: "p", Size: store.ChunkSize{Start: 10}, Ahead: 8, Follow: time.Second})
	for k := range 50 {
		w.src.todo[k] = true
	}
	failed := 0
	for range 60 {
		for range 5 {
			w.turn(t, 0)
		}
		for _, r := range w.m.live() {
			if num(r.r.After) < 25 && num(r.r.Through) >= 25 {
				require.Equal(t, []int{19, 29}, []int{num(r.r.After), num(r.r.Through)}, "it is planned as it was")
				r.state, r.failures = "failed", r.failures+1
				failed++
			} else {
				w.succeed(r)
			}
		}
		w.m.now = w.m.now.Add(time.Minute)
	}
	require.Equal(t, 3, failed)
	require.Len(t, w.settle(t, 3), 10)
}

// TestAgentsLeaveTheLookingToOne: while one plans, others do not read the table.
func TestAgentsLeaveTheLookingToOne(t *testing.T) {
	w := newWorld(t, store.ChunkSpec{Name: "p", Size: store.ChunkSize{Start: 10}, Ahead: 3, Follow: time.Second})
	for k := range 50 {
		w.src.todo[k] = true
	}
	w.turn(t, 0)
	require.Equal(t, 3, w.turn(t, 0).Chunks)
	w.succeed(w.m.live()[0])
	cuts := w.src.cuts
	require.Positive(t, w.turn(t, 1).Again)
	require.Equal(t, cuts, w.src.cuts)
	w.m.now = w.m.now.Add(11 * time.Second) // it is dead
	w.turn(t, 1)
	require.Equal(t, 1, w.turn(t, 1).Chunks)
}

// fixed is a store that returns one look, and keeps the last step.
type fixed struct {
	look store.ChunkLook
	step *store.ChunkStep
}

func (f *fixed) LookPlan(_ context.Context, _ string, limit int) (*store.ChunkLook, error) {
	look := f.look
	look.More = len(look.Obstacles) > limit
	look.Obstacles = look.Obstacles[:min(limit, len(look.Obstacles))]
	return &look, nil
}

func (f *fixed) ApplyChunks(_ context.Context, s *store.ChunkStep) (bool, error) {
	f.step = s
	return true, nil
}

// TestRangesThatWereBroughtBack may overlap what was cut anew since: the walk never goes backwards.
func TestRangesThatWereBroughtBack(t *testing.T) {
	key := func(n int) *chunk.Key { return new(chunk.Key(strconv.Itoa(n))) }
	obstacle := func(id int64, after, through *chunk.Key, state store.ChunkState) store.ChunkObstacle {
		return store.ChunkObstacle{ID: id, Range: store.ChunkRange{After: after, Through: through}, Rows: 10, State: state, Failures: 1}
	}
	f := &fixed{look: store.ChunkLook{
		Spec: store.ChunkSpec{Name: "p", Size: store.ChunkSize{Start: 100}, Ahead: 10, Follow: time.Second}, Now: time.Now(), Whole: 3,
		Plan: store.ChunkPlan{Pass: 5, Planning: true, Full: true, Cursor: key(10), Holder: "a"},
		Obstacles: []store.ChunkObstacle{
			obstacle(4, key(12), key(25), store.ChunkFailed),
			obstacle(1, nil, key(5), store.ChunkLive), obstacle(2, key(5), key(15), store.ChunkLive),
			obstacle(3, key(15), key(20), store.ChunkFailed), obstacle(5, key(30), key(40), store.ChunkLive),
		},
	}}
	for i := range f.look.Obstacles[1:] {
		f.look.Obstacles[i+1].Pass = 3
	}
	src := &ints{todo: map[int]bool{}}
	for k := range 50 {
		src.todo[k] = true
	}
	_, err := chunk.NewEngine(f, "a").Turn(t.Context(), "p", src)
	require.NoError(t, err)
	var got []string
	for _, i := range f.step.Items {
		got = append(got, fmt.Sprint(i.Kind, " ", num(i.Range.After), " ", num(i.Range.Through)))
	}
	require.Equal(t, []string{"skip 10 15", "insert 15 20", "insert 20 30", "skip 30 40", "insert 40 49"}, got)
	require.Equal(t, "49", string(*f.step.After.Cursor))
}

// TestManyRangesThatWereBroughtBack lie behind the walk, and keep it from what follows for some looks only.
func TestManyRangesThatWereBroughtBack(t *testing.T) {
	key := func(n int) *chunk.Key { return new(chunk.Key(strconv.Itoa(n))) }
	f := &fixed{look: store.ChunkLook{
		Spec: store.ChunkSpec{Name: "p", Size: store.ChunkSize{Start: 100}, Ahead: 10, Follow: time.Second}, Now: time.Now(),
		Plan: store.ChunkPlan{Pass: 2, Planning: true, Full: true, Cursor: key(10), Holder: "a", HeldUntil: time.Now().Add(time.Hour)},
	}}
	for n := range 1000 {
		f.look.Obstacles = append(f.look.Obstacles, store.ChunkObstacle{
			ID: int64(n + 1), Range: store.ChunkRange{Through: key(5)}, Rows: 10, State: store.ChunkLive,
		})
	}
	f.look.Obstacles = append(f.look.Obstacles, store.ChunkObstacle{
		ID: 2000, Range: store.ChunkRange{After: key(30), Through: key(40)}, Rows: 10, State: store.ChunkLive,
	})
	src := &ints{todo: map[int]bool{}}
	for k := range 50 {
		src.todo[k] = true
	}
	e, turns := chunk.NewEngine(f, "a"), 0
	for ; f.step == nil && turns < 10; turns++ {
		_, err := e.Turn(t.Context(), "p", src)
		require.NoError(t, err)
	}
	require.NotNil(t, f.step)
	require.Equal(t, 5, turns, "looks of 100, 200, 400, 800 and 1600 obstacles")
	require.Equal(t, "49", string(*f.step.After.Cursor))
}

// TestPassesThatFindNothingTakeOnePartInTwenty of the time together with those over the whole table, whatever they cost, and these go on.
func TestPassesThatFindNothingTakeOnePartInTwenty(t *testing.T) {
	for name, c := range map[string]struct {
		planned      bool // something was, so that there is a highest key
		whole, grown time.Duration
	}{
		"nothing was ever planned":                   {whole: 10 * time.Second},
		"most rows are behind the highest key":       {planned: true, whole: 10 * time.Second, grown: 9 * time.Second},
		"some are":                                   {planned: true, whole: 10 * time.Second, grown: 100 * time.Millisecond},
		"a look behind the highest key costs little": {planned: true, whole: 10 * time.Second, grown: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, store.ChunkSpec{Name: "p", Size: store.ChunkSize{Start: 10}, Ahead: 8, Follow: time.Second})
			w.src.todo[7] = c.planned
			w.settle(t, 1)
			var read time.Duration
			var grows, wholes int
			for began := w.m.now; w.m.now.Sub(began) < 2*time.Hour; {
				if did := w.turn(t, 0); !did.Busy {
					w.m.now = w.m.now.Add(did.Again)
				}
				if p := &w.m.plan; p.Planning && p.Cost == 0 {
					if p.Cost, grows = c.grown, grows+1; p.Full {
						p.Cost, grows, wholes = c.whole, grows-1, wholes+1
					}
					read += p.Cost
					w.m.now = w.m.now.Add(p.Cost)
				}
			}
			require.LessOrEqual(t, read, 2*time.Hour/20+c.whole+c.grown)
			require.GreaterOrEqual(t, wholes+1, int(2*time.Hour/40/(c.whole+c.grown)), "they go on")
			if c.grown == time.Millisecond {
				require.Greater(t, grows, 5000, "a look that costs nothing is made every second")
			}
			for w.m.plan.Planning {
				w.turn(t, 0)
			}
			w.m.now = w.m.now.Add(-24 * time.Hour)
			require.True(t, w.turn(t, 0).Busy, "it does not wait until a clock that was set back has caught up")
			require.True(t, w.m.plan.Full, "nor do passes over the whole table, whose time was of the same clock")
		})
	}
}

// TestPassesOverTheTableTakeOnePartInTwenty of the time, by what they cost.
func TestPassesOverTheTableTakeOnePartInTwenty(t *testing.T) {
	w := newWorld(t, store.ChunkSpec{Name: "p", Size: store.ChunkSize{Start: 10}, Ahead: 8, Follow: time.Second})
	w.src.todo[7] = true
	w.turn(t, 0)
	w.m.plan.Cost = time.Minute
	for range 3 {
		w.turn(t, 0)
	}
	require.False(t, w.m.plan.Planning)
	rest := w.m.plan.RepeatAt.Sub(w.m.now)
	require.GreaterOrEqual(t, rest, 19*time.Minute)
	require.Less(t, rest, 20*time.Minute)
	require.Equal(t, time.Second, w.m.plan.GrowAt.Sub(w.m.now))
}
