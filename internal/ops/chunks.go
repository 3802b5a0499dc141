package ops

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ChunkPlans is what commands need of a store for plans of chunks.
type ChunkPlans interface {
	// ListChunks returns plans that match, by name.
	ListChunks(ctx context.Context, f store.ChunkPlanFilter) ([]store.ChunkPlanInfo, error)
	// ListPasses returns passes of a plan, the newest first; none where there is no such plan.
	ListPasses(ctx context.Context, f store.ChunkPassFilter) ([]store.ChunkPassInfo, error)
	// LookPlan returns a plan with at most limit of its obstacles, and locks nothing.
	LookPlan(ctx context.Context, name string, limit int) (*store.ChunkLook, error)
	// PauseChunks has agents plan nothing more of a plan, and reports whether they did. Its tasks are run as ever.
	PauseChunks(ctx context.Context, name, by string) (changed bool, err error)
	// ResumeChunks has agents go on with a plan, and reports whether something kept them from it: a pause, or that the batch of the
	// pass was cancelled or rolled back. The next chunk of that pass then gets a new batch.
	ResumeChunks(ctx context.Context, name, by string) (changed bool, err error)
}

// ShownChunks is what it takes to show a plan.
type ShownChunks interface {
	ChunkPlans
	Agents
}

// maxPasses is how many passes are read at once.
const maxPasses = 1000

// chunksError names a plan that does not exist.
func chunksError(name string, err error) error {
	if errors.Is(err, store.ErrNoChunkPlan) {
		return fmt.Errorf("chunks %q: %w: `leasehold chunks list` shows those that exist", name, store.ErrNoChunkPlan)
	}
	return err
}

// ReadChunks reads one plan. It names one that does not exist.
func ReadChunks(ctx context.Context, s ChunkPlans, name string) (*store.ChunkPlanInfo, error) {
	list, err := s.ListChunks(ctx, store.ChunkPlanFilter{Name: name, Limit: 1})
	if err == nil && len(list) == 0 {
		err = store.ErrNoChunkPlan
	}
	if err != nil {
		return nil, chunksError(name, err)
	}
	return &list[0], nil
}

// ChunksChanged is what became of a plan that was to be paused or resumed.
type ChunksChanged struct {
	Chunks string `json:"chunks"`
	Became string `json:"became"`
}

// PauseChunks has agents plan nothing more of a plan, or go on.
func PauseChunks(ctx context.Context, s ChunkPlans, name string, pause bool, by string) (c ChunksChanged, err error) {
	if err := checkBy(by); err != nil {
		return c, err
	}
	call, did, already := s.ResumeChunks, "resumed", "was not paused"
	if pause {
		call, did, already = s.PauseChunks, "paused", "was paused"
	}
	c = ChunksChanged{Chunks: name, Became: already}
	changed, err := call(ctx, name, by)
	if changed {
		c.Became = did
	}
	return c, chunksError(name, err)
}

// ChunkDetail is a plan with its newest passes, and the ranges that failed.
type ChunkDetail struct {
	*store.ChunkPlanInfo

	Waits  *PlanWaits    `json:"waits,omitempty"` // why nothing of it is planned now; nil: for no throttle
	Failed []FailedRange `json:"failed"`
	Passes []ChunkPass   `json:"passes"`
}

// PlanWaits says why a plan waits, as the agent said that plans it.
type PlanWaits struct {
	Why   string    `json:"why"`
	Agent string    `json:"agent"`
	At    time.Time `json:"at"` // of the agent's heartbeat
}

// waitsOf finds what an agent says of a plan that waits; nil: none says that it does.
func waitsOf(agents []store.AgentInfo, plan string) *PlanWaits {
	for i := range agents {
		if agents[i].Condition == nil {
			continue
		}
		for _, w := range agents[i].Condition.Chunks {
			if w.Plan == plan {
				return &PlanWaits{w.Why, agents[i].Name, agents[i].SeenAt}
			}
		}
	}
	return nil
}

// ShowChunks returns a plan with at most limit passes, the newest first. It names one that does not exist.
func ShowChunks(ctx context.Context, s ShownChunks, name string, limit int) (d ChunkDetail, err error) {
	if d.ChunkPlanInfo, err = ReadChunks(ctx, s, name); err != nil {
		return d, err
	}
	passes, err := s.ListPasses(ctx, store.ChunkPassFilter{Plan: name, Limit: limit})
	if err != nil {
		return d, err
	}
	failed, now, err := FailedRanges(ctx, s, name)
	if err != nil {
		return d, err
	}
	if d.State == store.ChunksPlanning {
		agents, err := s.ListAgents(ctx, false)
		if err != nil {
			return d, err
		}
		d.Waits = waitsOf(agents, name)
	}
	d.Failed, d.Passes = failed, make([]ChunkPass, 0, len(passes))
	for n := range passes {
		d.Passes = append(d.Passes, PaceOf(passes[n], now))
	}
	return d, nil
}

// StopsChunks reports whether a change of the batch of a pass needs the plan to be paused first, so that nothing is planned meanwhile.
func StopsChunks(v Verb) bool { return v != VerbRetry }

// ChunkBatch returns the batch of a pass of a plan; pass 0: of the newest that has one.
func ChunkBatch(ctx context.Context, s ChunkPlans, name string, pass int) (task.BatchID, error) {
	if _, err := ReadChunks(ctx, s, name); err != nil {
		return 0, err
	}
	f := store.ChunkPassFilter{Plan: name, Limit: maxPasses}
	if pass != 0 {
		f.Below, f.Limit = min(pass, math.MaxInt32-1)+1, 1
	}
	list, err := s.ListPasses(ctx, f)
	if err != nil {
		return 0, err
	}
	for i := range list {
		if p := &list[i]; (pass == 0 || p.Pass == pass) && p.State != "" {
			return p.Batch, nil
		}
	}
	if pass == 0 {
		return 0, &store.InputError{Text: fmt.Sprintf("chunks %q: no pass has a batch: none has begun, or all are past their retention", name)}
	}
	return 0, &store.InputError{Text: fmt.Sprintf("chunks %q: pass %d has no batch: it does not exist, or is past its retention: see `leasehold "+
		"chunks show`", name, pass)}
}
