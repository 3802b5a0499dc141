//go:build sabotage

package model_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongBulks is a model that changes a bulk change once it was requested, and before each step.
type wrongBulks struct {
	*storetest.OnModel
	requested, carriedOn func(*model.Bulk)
	more                 int  // tasks of a step
	endless              bool // no bulk change is stopped
}

func (b wrongBulks) StartBulk(ctx context.Context, r store.BulkRequest) (int64, error) {
	id, err := b.OnModel.StartBulk(ctx, r)
	if b.requested != nil {
		b.ChangeBulk(b.requested)
	}
	return id, err
}

func (b wrongBulks) StepBulk(ctx context.Context, rows int) (model.BulkStepped, error) {
	if b.carriedOn != nil {
		b.ChangeBulk(b.carriedOn)
	}
	return b.OnModel.StepBulk(ctx, rows+b.more)
}

func (b wrongBulks) StopBulk(ctx context.Context, id int64, by string) error {
	if b.endless {
		return nil
	}
	return b.OnModel.StopBulk(ctx, id, by)
}

// What is wrong with bulk changes shows in histories of tasks. The suite's own checks of them need a store.
func TestMachineFindsSabotageOfBulkChanges(t *testing.T) {
	for name, with := range map[string]wrongBulks{
		"has no bound":              {requested: func(b *model.Bulk) { b.UpTo = math.MaxInt64 }},
		"retries what failed since": {requested: func(b *model.Bulk) { b.RequestedAt = b.RequestedAt.Add(1000 * time.Hour) }},
		"changes all types":         {requested: func(b *model.Bulk) { b.Filter.Type = "" }},
		"changes all states":        {requested: func(b *model.Bulk) { b.Filter.States = nil }},
		"begins anew at each step":  {carriedOn: func(b *model.Bulk) { b.After = 0 }},
		"counts nothing":            {carriedOn: func(b *model.Bulk) { b.Done = 0 }},
		"changes one more a step":   {more: 1},
		"never stops":               {endless: true},
	} {
		historiesFind(t, storetest.AboutTasks, sabotage{name: name, wrong: func(m *storetest.OnModel) storetest.Harness {
			with.OnModel = m
			return with
		}})
	}
}
