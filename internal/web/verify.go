package web

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// mostProven is how many passes a plan may have to be verified for a page: all of them may have to be read.
const mostProven = 500

// proof is what the ledger of a plan proves, without a look at its table.
type proof struct {
	Covered  bool
	Through  *store.ChunkKey
	Problems []string
}

// prove verifies a plan by its ledger; nil: it has too many passes for a page.
func (d *Dashboard) prove(r *request, plan *store.ChunkPlanInfo) (*proof, error) {
	if plan.Pass > mostProven {
		return nil, nil //nolint:nilnil // the page then says how to verify it
	}
	p, err := ops.ProveChunks(r.ctx, d.Store, plan.Name)
	if err != nil {
		return nil, err
	}
	return &proof{p.Covered, p.Through, append(p.Problems(), p.Unfinished()...)}, nil
}

// paceOf says why a plan is as fast as it is: by what the store knows, and by the throttle that the agent that plans it last said it waits for.
func paceOf(p *store.ChunkPlanInfo, waits *ops.PlanWaits) (why []string) {
	live, ahead := ops.Thousands(p.Live), ops.Thousands(int64(p.Ahead))
	switch {
	case p.State == store.ChunksFollowing:
		why = append(why, "The table was looked through. The next look comes "+ops.Duration(p.Follow)+" after the last.")
	case p.State != store.ChunksPlanning:
		return nil // the state says it
	case waits != nil:
		why = append(why, fmt.Sprintf("Planning waits: %s (says agent %s).", ops.OneLine(waits.Why, mostLine), ops.OneLine(waits.Agent, mostLine)))
	case p.Live >= int64(p.Ahead):
		why = append(why, fmt.Sprintf("%s chunks wait or run, which is all that may (ahead = %s): the next ones are planned as these end.", live, ahead))
	default:
		why = append(why, fmt.Sprintf("%s of %s chunks wait or run: more are planned.", live, ahead))
	}
	if p.Target > 0 && p.PerRow > 0 {
		row := time.Duration(p.PerRow * float64(time.Second))
		why = append(why, fmt.Sprintf("A row takes %s and a chunk should take %s: so the next one has %s rows.",
			ops.Duration(row), ops.Duration(p.Target), ops.Thousands(int64(p.Size))))
	}
	return why
}
