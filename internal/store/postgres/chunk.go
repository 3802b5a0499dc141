package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// LookPlan returns a chunk plan and at most limit of its obstacles.
func (s *Store) LookPlan(ctx context.Context, name string, limit int) (look *store.ChunkLook, err error) {
	err = s.do(ctx, "look at a chunk plan", func(ctx context.Context, conn *pgx.Conn) error {
		look = new(store.ChunkLook)
		l := look
		var target, follow, cost, rest, doneUs int64
		var done store.ChunkSums
		var grow, repeat, held *time.Time
		var sizes string
		var whole *int
		err := queryRow(ctx, conn, s.sql.LookPlan, arg("name", storable(name)), arg("back", store.ChunkPassesBack)).Scan(
			&l.Now, &l.Spec.Task, &l.Spec.Table, &l.Spec.Key, &l.Spec.Size.Start, &l.Spec.Size.Min, &l.Spec.Size.Max, &target,
			&l.Spec.Ahead, &follow, &l.Plan.Version, &l.Plan.Paused, &l.Plan.Pass, &l.Plan.Planning, &l.Plan.Full,
			&l.Plan.From, &l.Plan.Cursor, &l.Plan.High, &l.Plan.Chunks, &cost, &l.Plan.Over, &grow, &repeat, &rest, &l.Plan.Size,
			&l.Plan.PerRow, &l.Plan.Sampled, &l.Plan.Holder, &held, &done.Rows, &doneUs, &sizes, &l.Live, &whole)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNoChunkPlan
		}
		if err != nil {
			return err
		}
		l.Spec.Name, l.Now, l.Whole = name, l.Now.UTC(), or(whole)
		l.Spec.Size.Target, l.Spec.Follow, l.Plan.Cost = microseconds(target), microseconds(follow), microseconds(cost)
		l.Plan.GrowAt, l.Plan.RepeatAt, l.Plan.HeldUntil = utc(grow), utc(repeat), utc(held)
		l.Plan.Rest, done.Took, l.Plan.Sizes = microseconds(rest), microseconds(doneUs), store.ParseChunkSizes(sizes)
		if !l.Plan.Planning { // what an ended pass was is of no use to the next
			l.Plan.Full, l.Plan.From, l.Plan.Cursor, l.Plan.Chunks, l.Plan.Cost, l.Plan.Sizes = false, nil, nil, 0, 0, nil
		}
		l.Sample(done)
		return s.lookObstacles(ctx, conn, look, limit)
	})
	return look, err
}

// lookObstacles adds the obstacles to a look.
func (s *Store) lookObstacles(ctx context.Context, conn *pgx.Conn, look *store.ChunkLook, limit int) error {
	below := look.Plan.Pass
	if !look.Plan.Planning {
		below++
	}
	var o store.ChunkObstacle
	var live bool
	var noted, state, cause string
	into := []any{&o.ID, &o.Pass, &o.Range.After, &o.Range.Through, &o.Rows, &o.Failures, &live, &noted, &state, &cause}
	seen := 0
	return forEach(ctx, conn, into, func() error {
		if seen++; seen > limit {
			look.More = true
			return nil
		}
		one := o
		if one.Standing(live, noted, task.State(state), task.Verdict(cause)) {
			look.Obstacles = append(look.Obstacles, one)
		}
		o.Range = store.ChunkRange{}
		return nil
	}, s.sql.ChunkObstacles, arg("name", look.Spec.Name), arg("below", int32(below)), arg("limit", int64(limit)+1))
}

// errStale ends the transaction of a step that does not apply.
var errStale = errors.New("something has changed since the look")

// ApplyChunks applies a step, all in one transaction.
func (s *Store) ApplyChunks(ctx context.Context, step *store.ChunkStep) (applied bool, err error) {
	err = s.do(ctx, "plan chunks", func(ctx context.Context, conn *pgx.Conn) error {
		return s.changeAll(ctx, conn, func(tx pgx.Tx) error {
			c := &chunking{Store: s, ctx: ctx, tx: tx, step: step, name: arg("name", storable(step.Name))}
			return c.apply()
		})
	})
	if errors.Is(err, errStale) || code(err) == codeRefused { // the batch has been stopped since
		return false, nil
	}
	return err == nil, err
}

// chunking is what a call of ApplyChunks does, in its transaction.
type chunking struct {
	*Store
	ctx  context.Context //nolint:containedctx // lives as long as the call that made it
	tx   pgx.Tx
	step *store.ChunkStep
	name sqltext.Arg

	spec  store.ChunkSpec
	batch int64 // of the pass; 0: there is none yet
	sums  store.ChunkSums
}

func (c *chunking) apply() error {
	if err := c.lock(); err != nil {
		return err
	}
	if err := c.note(); err != nil {
		return err
	}
	if err := c.insert(); err != nil {
		return err
	}
	if err := c.skip(); err != nil {
		return err
	}
	return c.move()
}

// lock locks the plan, and checks what the step continues.
func (c *chunking) lock() error {
	var pass int
	var planning bool
	var cursor *store.ChunkKey
	err := queryRow(c.ctx, c.tx, c.sql.LockPlan, c.name, arg("version", c.step.Before)).
		Scan(&c.spec.Task, &c.spec.Table, &c.spec.Key, &pass, &planning, &cursor, &c.batch)
	if errors.Is(err, pgx.ErrNoRows) {
		return errStale
	}
	if err != nil {
		return err
	}
	c.spec.Name = c.step.Name
	begins, err := c.step.Begins(pass, planning, cursor)
	if begins {
		c.batch = 0
	}
	return err
}

// note notes chunks whose tasks have finished, and looks whether those that the step plans again have failed.
func (c *chunking) note() error {
	again := c.step.Again()
	left := make(map[int64]bool, len(again))
	for _, id := range again {
		left[id] = true
	}
	var ids []int64
	var states []string
	var f store.FinishedChunk
	var us int64
	var noted string
	stale := false
	err := forEach(c.ctx, c.tx, []any{(*int64)(&f.Task), &f.Rows, (*string)(&f.State), (*string)(&f.Cause), &us, &noted}, func() error {
		f.Took = microseconds(us)
		var sums store.ChunkSums
		state := f.Note(&sums)
		stale = stale || left[int64(f.Task)] && state != store.ChunkFailed
		delete(left, int64(f.Task))
		if noted != string(store.ChunkFailed) {
			ids, states = append(ids, int64(f.Task)), append(states, string(state))
			c.sums.Rows += sums.Rows
			c.sums.Took += sums.Took
		}
		return nil
	}, c.sql.FinishedChunks, c.name, arg("ids", again), arg("limit", int64(store.ChunksNoted)))
	if err != nil {
		return err
	}
	if stale {
		return errStale
	}
	if len(ids) > 0 {
		if err := exec(c.ctx, c.tx, c.sql.NoteChunks, arg("ids", ids), arg("states", states)); err != nil {
			return err
		}
	}
	return c.gone(left)
}

// gone looks whether ranges that have failed have no tasks any more: nobody can revive them.
func (c *chunking) gone(left map[int64]bool) error {
	if len(left) == 0 {
		return nil
	}
	ids := make([]int64, 0, len(left))
	for id := range left {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	n := 0
	if err := queryRow(c.ctx, c.tx, c.sql.ChunkTasksLeft, arg("ids", ids)).Scan(&n); err != nil {
		return err
	}
	if n > 0 {
		return errStale
	}
	return nil
}

// insert inserts the tasks of the step's chunks, and the chunks.
func (c *chunking) insert() error {
	var items, rows, failures []int32
	var after, through []*string // a connection without types has none for a slice of keys
	var payloads []string
	for n, i := range c.step.Items {
		if i.Kind != store.ChunkInsert {
			continue
		}
		items, rows = append(items, int32(n)), append(rows, int32(i.Rows))
		after, through = append(after, (*string)(i.Range.After)), append(through, (*string)(i.Range.Through))
		failures = append(failures, int32(i.Failures()))
		payloads = append(payloads, string(c.spec.Payload(c.step.After.Pass, i.Range, i.Rows)))
	}
	if len(items) == 0 {
		return nil
	}
	by := arg("by", store.ChunkCreator(c.step.Name))
	if c.batch == 0 {
		name := arg("name", store.ChunkBatchName(c.step.Name, c.step.After.Pass))
		if err := queryRow(c.ctx, c.tx, c.sql.ChunkBatch, name, by).Scan(&c.batch); err != nil {
			return err
		}
	}
	ids, err := collectIDs(query(c.ctx, c.tx, c.sql.InsertChunkTasks, arg("type", c.spec.Task), arg("batch", c.batch), by,
		arg("payloads", payloads)))
	if err != nil {
		return err
	}
	slices.Sort(ids)
	c.step.Batch = task.BatchID(c.batch)
	return exec(c.ctx, c.tx, c.sql.InsertChunks, arg("ids", ids), c.name, arg("pass", int32(c.step.After.Pass)),
		arg("step", c.step.After.Version), arg("items", items), arg("after", after), arg("through", through), arg("rows", rows),
		arg("failures", failures))
}

// skip has ranges stay obstacles, of this pass; those that were planned again, or have no rows, are none any more.
func (c *chunking) skip() error {
	var ids, over []int64
	var items []int32
	var states []string
	for n, i := range c.step.Items {
		switch {
		case i.Obstacle == nil:
		case i.Kind == store.ChunkSkip:
			ids, items = append(ids, i.Obstacle.ID), append(items, int32(n))
		default:
			over, states = append(over, i.Obstacle.ID), append(states, string(store.ChunkOver))
		}
	}
	if len(ids) > 0 {
		if err := exec(c.ctx, c.tx, c.sql.SkipChunks, c.name, arg("ids", ids), arg("items", items),
			arg("pass", int32(c.step.After.Pass)), arg("step", c.step.After.Version)); err != nil {
			return err
		}
	}
	if len(over) == 0 {
		return nil
	}
	return exec(c.ctx, c.tx, c.sql.NoteChunks, arg("ids", over), arg("states", states))
}

// move moves the plan on, and the pass.
func (c *chunking) move() error {
	p := &c.step.After
	chunks, rows := c.step.Planned()
	pass := arg("pass", int32(p.Pass))
	err := exec(c.ctx, c.tx, c.sql.PutPass, c.name, pass, arg("whole", p.Full), arg("from", p.From), arg("through", p.Cursor),
		arg("ranges", int32(len(c.step.Items))), arg("chunks", int32(chunks)), arg("rows", rows), arg("cost", p.Cost.Microseconds()),
		arg("sizes", store.ChunkSizesText(p.Sizes)), arg("first", c.step.First), arg("last", c.step.Last),
		arg("batch", c.batch), arg("sealed", c.step.Sealed))
	if err != nil {
		return err
	}
	if c.step.Sealed {
		if c.batch != 0 {
			if err := exec(c.ctx, c.tx, c.sql.SealBatch, arg("id", c.batch)); err != nil {
				return err
			}
		}
		if err := exec(c.ctx, c.tx, c.sql.ForgetEmptyPass, c.name, pass); err != nil {
			return err
		}
	}
	return exec(c.ctx, c.tx, c.sql.MovePlan, c.name, pass, arg("version", p.Version), arg("high", p.High), arg("over", p.Over),
		arg("grow_at", timeOrNull(p.GrowAt)), arg("repeat_at", timeOrNull(p.RepeatAt)), arg("rest", p.Rest.Microseconds()),
		arg("size", int32(p.Size)), arg("per_row", p.PerRow), arg("sampled", p.Sampled), arg("holder", p.Holder),
		arg("held_until", timeOrNull(p.HeldUntil)), arg("done_rows", c.sums.Rows), arg("done_us", c.sums.Took.Microseconds()))
}
