package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// LookPlan returns a chunk plan and at most limit of its obstacles. It does not wait for writers.
func (s *Store) LookPlan(ctx context.Context, name string, limit int) (look *store.ChunkLook, err error) {
	err = s.view(ctx, "look at a chunk plan", func(t *snapshot) error {
		l := &store.ChunkLook{Spec: store.ChunkSpec{Name: name}, Now: s.now()}
		var target, follow, cost, rest, doneUs int64
		var done store.ChunkSums
		var sizes string
		p := &l.Plan
		err := t.row([]any{
			&l.Spec.Task, &l.Spec.Table, &l.Spec.Key, &l.Spec.Size.Start, &l.Spec.Size.Min, &l.Spec.Size.Max, &target, &l.Spec.Ahead,
			&follow, &p.Version, truthOf{&p.Paused}, &p.Pass, truthOf{&p.Planning}, truthOf{&p.Full}, keyOf{&p.From}, keyOf{&p.Cursor},
			keyOf{&p.High}, &p.Chunks, &cost, truthOf{&p.Over}, timeOf{&p.GrowAt}, timeOf{&p.RepeatAt}, &rest, &p.Size, &p.PerRow,
			&p.Sampled, textOf[string]{&p.Holder}, timeOf{&p.HeldUntil}, &done.Rows, &doneUs, &sizes, &l.Live, &l.Whole,
		}, t.sql.LookPlan, arg("name", name), arg("back", store.ChunkPassesBack))
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrNoChunkPlan
		}
		if err != nil {
			return err
		}
		l.Spec.Size.Target, l.Spec.Follow, p.Cost = microseconds(target), microseconds(follow), microseconds(cost)
		p.Rest, done.Took, p.Sizes = microseconds(rest), microseconds(doneUs), store.ParseChunkSizes(sizes)
		if !p.Planning { // what an ended pass was is of no use to the next
			p.Full, p.From, p.Cursor, p.Chunks, p.Cost, p.Sizes = false, nil, nil, 0, 0, nil
		}
		l.Sample(done)
		look = l
		return t.obstacles(l, limit)
	})
	return look, err
}

func microseconds(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// keyOf reads a key that may be NULL.
type keyOf struct{ k **store.ChunkKey }

// Scan implements sql.Scanner.
func (x keyOf) Scan(v any) error {
	*x.k = nil
	if v == nil {
		return nil
	}
	var k store.ChunkKey
	*x.k = &k
	return textOf[store.ChunkKey]{&k}.Scan(v)
}

// keyOrNull is a key, or NULL.
func keyOrNull(k *store.ChunkKey) any {
	if k == nil {
		return nil
	}
	return string(*k)
}

// obstacles adds the obstacles to a look.
func (t *snapshot) obstacles(look *store.ChunkLook, limit int) error {
	below := look.Plan.Pass
	if !look.Plan.Planning {
		below++
	}
	seen := 0
	return t.query(func(r *sql.Rows) error {
		if seen++; seen > limit {
			look.More = true
			return nil
		}
		var o store.ChunkObstacle
		var live bool
		var noted string
		var state task.State
		var cause task.Verdict
		if err := r.Scan(&o.ID, &o.Pass, keyOf{&o.Range.After}, keyOf{&o.Range.Through}, &o.Rows, &o.Failures, truthOf{&live}, &noted,
			textOf[task.State]{&state}, textOf[task.Verdict]{&cause}); err != nil {
			return err
		}
		if o.Standing(live, noted, state, cause) {
			look.Obstacles = append(look.Obstacles, o)
		}
		return nil
	}, t.sql.ChunkObstacles, arg("name", look.Spec.Name), arg("below", below), arg("limit", limit+1))
}

// errStale ends the transaction of a step that does not apply.
var errStale = errors.New("something has changed since the look")

// ApplyChunks applies a step, all in one transaction.
func (s *Store) ApplyChunks(ctx context.Context, step *store.ChunkStep) (applied bool, err error) {
	err = s.change(ctx, "plan chunks", func(t *tx) error {
		c := &chunking{tx: t, step: step, name: arg("name", step.Name)}
		for _, do := range []func() error{c.lock, c.note, c.again, c.insert, c.move} {
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errStale) {
		return false, nil
	}
	return err == nil, err
}

// chunking is what a call of ApplyChunks does, in its transaction.
type chunking struct {
	*tx
	step *store.ChunkStep
	name sqltext.Arg

	spec  store.ChunkSpec
	batch task.BatchID // of the pass; 0: there is none yet
	sums  store.ChunkSums
}

// lock checks that the plan is what was seen, and what the step continues.
func (c *chunking) lock() error {
	var pass int
	var planning bool
	var cursor *store.ChunkKey
	err := c.row([]any{&c.spec.Task, &c.spec.Table, &c.spec.Key, &pass, truthOf{&planning}, keyOf{&cursor}, numberOf[task.BatchID]{&c.batch}},
		c.sql.LockPlan, c.name, arg("version", c.step.Before))
	if errors.Is(err, sql.ErrNoRows) {
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

// note notes chunks whose tasks have finished.
func (c *chunking) note() error {
	noted := map[task.ID]store.ChunkState{}
	err := c.query(func(r *sql.Rows) error {
		var f store.FinishedChunk
		var began, ended time.Time
		if err := r.Scan(numberOf[task.ID]{&f.Task}, &f.Rows, textOf[task.State]{&f.State}, textOf[task.Verdict]{&f.Cause},
			timeOf{&began}, timeOf{&ended}); err != nil {
			return err
		}
		if !began.IsZero() {
			f.Took = ended.Sub(began)
		}
		noted[f.Task] = f.Note(&c.sums)
		return nil
	}, c.sql.FinishedChunks, c.name, arg("limit", store.ChunksNoted))
	if err != nil {
		return err
	}
	for id, state := range noted {
		if err := c.set(int64(id), state); err != nil {
			return err
		}
	}
	return nil
}

func (c *chunking) set(id int64, state store.ChunkState) error {
	_, err := c.exec(c.sql.NoteChunk, arg("id", id), arg("state", string(state)))
	return err
}

// again looks whether ranges that are planned again have failed still, and notes that they are none any more.
func (c *chunking) again() error {
	for _, id := range c.step.Again() {
		var o store.ChunkObstacle
		var live bool
		var noted string
		var state task.State
		var cause task.Verdict
		err := c.row([]any{&noted, truthOf{&live}, textOf[task.State]{&state}, textOf[task.Verdict]{&cause}},
			c.sql.ChunkStanding, arg("id", id), c.name)
		if errors.Is(err, sql.ErrNoRows) || err == nil && (!o.Standing(live, noted, state, cause) || o.State != store.ChunkFailed) {
			return errStale
		}
		if err != nil {
			return err
		}
		if err := c.set(id, store.ChunkOver); err != nil {
			return err
		}
	}
	return nil
}

// insert inserts the step's chunks with their tasks, and has ranges that it skips stay obstacles of this pass.
func (c *chunking) insert() error {
	pass, step := arg("pass", c.step.After.Pass), arg("step", c.step.After.Version)
	for n, i := range c.step.Items {
		item := arg("item", n)
		if i.Kind == store.ChunkSkip {
			if _, err := c.exec(c.sql.SkipChunk, c.name, pass, step, item, arg("id", i.Obstacle.ID)); err != nil {
				return err
			}
		}
		if i.Kind != store.ChunkInsert {
			continue
		}
		id, err := c.insertTask(string(c.spec.Payload(c.step.After.Pass, i.Range, i.Rows)))
		if err != nil {
			return err
		}
		if _, err := c.exec(c.sql.InsertChunk, c.name, pass, step, item, arg("id", int64(id)), arg("after", keyOrNull(i.Range.After)),
			arg("through", keyOrNull(i.Range.Through)), arg("rows", i.Rows), arg("failures", i.Failures())); err != nil {
			return err
		}
	}
	c.step.Batch = c.batch
	return nil
}

// insertTask inserts a task into the pass's batch, which the first one creates.
func (c *chunking) insertTask(payload string) (id task.ID, err error) {
	now, by := arg("now", stamp(c.now)), arg("by", store.ChunkCreator(c.step.Name))
	if c.batch == 0 {
		err := c.row([]any{&c.batch}, c.sql.CreateBatch, arg("name", store.ChunkBatchName(c.step.Name, c.step.After.Pass)),
			arg("on_failure", string(store.OnFailureContinue)), arg("finish_type", nil), arg("finish_payload", "{}"),
			arg("labels", nil), arg("created_by", store.ChunkCreator(c.step.Name)), arg("sealed", false), now)
		if err != nil {
			return 0, err
		}
	}
	err = c.row([]any{&id}, c.sql.InsertChunkTask, arg("type", c.spec.Task), arg("payload", payload), arg("batch", int64(c.batch)), by, now)
	return id, err
}

// move moves the plan on, and the pass.
func (c *chunking) move() error {
	p := &c.step.After
	chunks, rows := c.step.Planned()
	pass, now := arg("pass", p.Pass), arg("now", stamp(c.now))
	if _, err := c.exec(c.sql.PutPass, c.name, pass, arg("whole", p.Full), arg("from", keyOrNull(p.From)),
		arg("through", keyOrNull(p.Cursor)), arg("ranges", len(c.step.Items)), arg("chunks", chunks), arg("rows", rows),
		arg("cost", p.Cost.Microseconds()), arg("sizes", store.ChunkSizesText(p.Sizes)), arg("first", keyOrNull(c.step.First)),
		arg("last", keyOrNull(c.step.Last)), arg("batch", null(int64(c.batch))), arg("sealed", c.step.Sealed), now); err != nil {
		return err
	}
	if c.step.Sealed {
		if c.batch != 0 {
			if _, err := c.exec(c.sql.SealBatch, arg("id", int64(c.batch))); err != nil {
				return err
			}
		}
		if _, err := c.exec(c.sql.ForgetEmptyPass, c.name, pass); err != nil {
			return err
		}
	}
	_, err := c.exec(c.sql.MovePlan, c.name, pass, arg("version", p.Version), arg("high", keyOrNull(p.High)), arg("over", p.Over),
		arg("grow_at", stampOrNull(p.GrowAt)), arg("repeat_at", stampOrNull(p.RepeatAt)), arg("rest", p.Rest.Microseconds()),
		arg("size", p.Size), arg("per_row", p.PerRow), arg("sampled", p.Sampled), arg("holder", null(p.Holder)),
		arg("held_until", stampOrNull(p.HeldUntil)), arg("done_rows", c.sums.Rows), arg("done_us", c.sums.Took.Microseconds()))
	return err
}
