package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// bulkChanges makes changes of all tasks that match a filter: the model by itself, a store with what agents carry them on with.
type bulkChanges interface {
	StartBulk(ctx context.Context, r store.BulkRequest) (int64, error)
	StopBulk(ctx context.Context, id int64, by string) error
	StepBulk(ctx context.Context, rows int) (model.BulkStepped, error)
	CarryOnOldestBulk(ctx context.Context, rows int) (model.BulkStepped, error)
}

// realBulks is a store with what agents carry its bulk changes on with. It keeps the last step.
type realBulks struct {
	bulkStore
	work *batch.Bulk
	last *store.BulkStep // nil: there was none
}

// bulks returns what makes bulk changes on the store.
func (m *machine) bulks() bulkChanges {
	if c, ok := m.real.(bulkChanges); ok { // the model, which is compared with itself
		return c
	}
	if m.realBulks == nil {
		s, ok := m.real.(bulkStore)
		require.True(m.t, ok)
		m.realBulks = &realBulks{bulkStore: s}
		m.realBulks.work = batch.NewBulk(m.realBulks, ops.NamedSignature)
	}
	return m.realBulks
}

// ApplyBulk applies a step, and keeps it.
func (r *realBulks) ApplyBulk(ctx context.Context, s *store.BulkStep) (store.BulkResult, error) {
	kept, bulk := *s, *s.Bulk
	kept.Bulk = &bulk // what carries the change on moves it on
	r.last = &kept
	return r.bulkStore.ApplyBulk(ctx, s)
}

// StepBulk carries on one bulk change.
func (r *realBulks) StepBulk(ctx context.Context, rows int) (model.BulkStepped, error) {
	did, err := r.work.Step(ctx, rows)
	if err != nil || did.Bulk == nil {
		return model.BulkStepped{}, err
	}
	return stepped(did.Bulk), nil
}

func stepped(b *store.Bulk) model.BulkStepped {
	return model.BulkStepped{ID: b.ID, Done: b.Done, Refused: b.Refused, Over: b.EndedAt != nil}
}

// errLate says that an agent has carried on a bulk change that another had carried on since it looked.
var errLate = errors.New("an agent that was overtaken has changed something")

// CarryOnOldestBulk has two agents carry on the oldest bulk change. The one that looks first is overtaken by the other before it changes
// anything, and then changes nothing.
func (r *realBulks) CarryOnOldestBulk(ctx context.Context, rows int) (model.BulkStepped, error) {
	list, err := r.OpenBulks(ctx, 0, 1)
	if err != nil || len(list) == 0 {
		return model.BulkStepped{}, err
	}
	first, second := list[0], list[0]
	late := batch.NewBulk(&overtaken{r.bulkStore, func() error {
		moved, err := r.work.CarryOn(ctx, &second, rows)
		if err == nil && !moved {
			err = fmt.Errorf("bulk change %d: the agent that looked last has changed nothing", second.ID)
		}
		return err
	}}, ops.NamedSignature)
	moved, err := late.CarryOn(ctx, &first, rows+1)
	if err == nil && moved {
		err = errLate
	}
	if err != nil {
		return model.BulkStepped{}, err
	}
	now, err := r.GetBulk(ctx, first.ID)
	if err != nil {
		return model.BulkStepped{}, err
	}
	return stepped(now), nil
}

// overtaken is a store on which another agent is faster with a step.
type overtaken struct {
	bulkStore
	other func() error
}

// ApplyBulk applies a step, after another's.
func (o *overtaken) ApplyBulk(ctx context.Context, s *store.BulkStep) (store.BulkResult, error) {
	if err := o.other(); err != nil {
		return store.BulkResult{}, err
	}
	return o.bulkStore.ApplyBulk(ctx, s)
}

// bulkActions are those of operators who change all tasks that match a filter, and of agents that carry that on.
func (m *machine) bulkActions() map[string]func(*rapid.T) {
	two := func(t *rapid.T) { m.stepBulk(t, m.ideal.CarryOnOldestBulk, m.bulks().CarryOnOldestBulk) }
	return map[string]func(*rapid.T){
		"start a bulk change":   m.startBulk,
		"start a bulk change 2": m.startBulk,
		"step a bulk change":    func(t *rapid.T) { m.stepBulk(t, m.ideal.StepBulk, m.bulks().StepBulk) },
		"two agents step":       two,
		"two agents step 2":     two,
		"stop a bulk change":    m.stopBulk,
		"step again":            m.stepAgain,
	}
}

func (m *machine) startBulk(t *rapid.T) {
	ctx := m.begin()
	r := store.BulkRequest{Verb: rapid.SampledFrom([]string{store.VerbCancel, store.VerbRetry, store.VerbRollback}).Draw(t, "verb"), By: "alice"}
	r.Filter.Type = rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "type")
	if rapid.Bool().Draw(t, "of some states") {
		states := rapid.SliceOfNDistinct(rapid.SampledFrom(store.BulkStates(r.Verb)), 1, 3, rapid.ID[task.State])
		r.Filter.States = states.Draw(t, "states")
	}
	var of pair[task.BatchID]
	if all := m.chunks.batches; len(all) > 0 && rapid.Bool().Draw(t, "of a batch") {
		of = rapid.SampledFrom(all[max(len(all)-3, 0):]).Draw(t, "batch")
	}
	r.Filter.Batch = of.ideal
	want, err := m.ideal.StartBulk(ctx, r)
	require.NoError(m.t, err)
	r.Filter.Batch = of.real
	got, err := m.bulks().StartBulk(ctx, r)
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "ids of bulk changes count from 1")
	m.bulkIDs = got
}

// stepBulk carries on a bulk change on both stores.
func (m *machine) stepBulk(t *rapid.T, ideal, tested func(ctx context.Context, rows int) (model.BulkStepped, error)) {
	ctx := m.begin()
	n := rapid.IntRange(1, 3).Draw(t, "tasks")
	want, err := ideal(ctx, n)
	require.NoError(m.t, err)
	got, err := tested(ctx, n)
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "what was carried on")
}

// stepAgain repeats the last step, as after a reply that was lost, or of an agent that was overtaken: it does nothing.
func (m *machine) stepAgain(t *rapid.T) {
	if m.realBulks == nil || m.realBulks.last == nil {
		t.Skip("there was no step")
	}
	r, err := m.realBulks.bulkStore.ApplyBulk(m.begin(), m.realBulks.last)
	require.NoError(m.t, err)
	require.Equal(m.t, store.BulkResult{}, store.BulkResult{Applied: r.Applied, Rows: r.Rows, Refused: r.Refused, Ended: r.Ended}, "a step that was applied")
}

func (m *machine) stopBulk(t *rapid.T) {
	if m.bulkIDs == 0 {
		t.Skip("there was no bulk change")
	}
	ctx := m.begin()
	id := rapid.Int64Range(max(m.bulkIDs-1, 1), m.bulkIDs).Draw(t, "bulk change")
	require.NoError(m.t, m.ideal.StopBulk(ctx, id, "alice"))
	require.NoError(m.t, m.bulks().StopBulk(ctx, id, "alice"))
}
