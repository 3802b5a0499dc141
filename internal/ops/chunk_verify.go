package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// ChunkProof is what the ledger of a plan proves: which part of the table was cut into ranges that are disjoint and leave no gap, and
// what became of their tasks.
type ChunkProof struct {
	Name    string                `json:"name"`
	State   store.ChunkPlanState  `json:"state"`
	Table   string                `json:"table"`
	Key     string                `json:"key"`
	Through *store.ChunkKey       `json:"through"` // the table's begin up to here has been cut; nil: nothing was there to cut
	Covered bool                  `json:"covered"` // sealed passes prove it
	Passes  []store.ChunkPassInfo `json:"passes"`  // that prove it, the newest first, at most maxPasses; and the one being planned
	Live    int64                 `json:"live"`    // chunks that have not finished
	Failed  []FailedRange         `json:"failed"`  // that no later pass has planned again yet, at most maxObstacles
	Undone  int64                 `json:"undone"`  // chunks of Passes that were cancelled or rolled back, as far as their batches still say so
}

// FailedRange is a range whose task failed for good.
type FailedRange struct {
	store.ChunkRange

	Rows   int   `json:"rows"`
	Task   int64 `json:"task"`
	Passes int   `json:"passes"` // in a row in which it failed
	Held   bool  `json:"held"`   // it is not planned again
}

// CountedLeft is the most rows of a table that are counted.
const CountedLeft = 1_000_000

// ChunkVerdict is a proof, with what the table says.
type ChunkVerdict struct {
	*ChunkProof

	ChunkLeft

	Problems []string `json:"problems"`
}

// ChunkLeft is what is left of a table.
type ChunkLeft struct {
	Counted bool            `json:"counted"`    // whether the table was read to its end
	Left    int             `json:"left"`       // rows that the plan's where still finds, at most CountedLeft; a lower bound where it was not
	First   *store.ChunkKey `json:"first_left"` // the lowest key of these
}

// Conclude lists what is not as it should be. Rows that say whether they are done decide; else the tasks do.
func (v *ChunkVerdict) Conclude() {
	v.Problems = append([]string{}, v.ChunkProof.Problems()...)
	const most = 40
	orMore, from := "", ""
	if v.Left >= CountedLeft || !v.Counted {
		orMore = " or more"
	}
	if v.First != nil {
		from = OneLine(string(*v.First), most)
	}
	if !v.Counted {
		v.Problems = append(v.Problems, v.Unfinished()...)
	}
	if v.Left > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("rows left: %d%s, from the key %s on", v.Left, orMore, from))
	}
}

// maxObstacles is how many ranges are looked at.
const maxObstacles = 1000

// ProveChunks reads the ledger of a plan from its newest pass back to one that began with the table. It names a plan that does not
// exist.
func ProveChunks(ctx context.Context, s ChunkPlans, name string) (*ChunkProof, error) {
	plan, err := ReadChunks(ctx, s, name)
	if err != nil {
		return nil, err
	}
	p := &ChunkProof{Name: plan.Name, State: plan.State, Table: plan.Table, Key: plan.Key, Through: plan.High, Live: plan.Live}
	if p.Failed, _, err = FailedRanges(ctx, s, name); err != nil {
		return nil, err
	}
	for need, below := plan.High, 0; ; {
		list, err := s.ListPasses(ctx, store.ChunkPassFilter{Plan: name, Below: below, Limit: maxPasses})
		if err != nil {
			return nil, err
		}
		for n := range list {
			if need = p.add(&list[n], need); p.Covered {
				return p, nil
			}
		}
		if len(list) < maxPasses {
			// A pass that found nothing leaves no row.
			p.Covered = plan.High == nil && plan.Pass > 0 && len(p.Passes) == 0
			return p, nil
		}
		below = list[len(list)-1].Pass
	}
}

// add adds an older pass. Up to need nothing is proven by those before it; it returns the same of those with it.
func (p *ChunkProof) add(pass *store.ChunkPassInfo, need *store.ChunkKey) *store.ChunkKey {
	sealed := !pass.SealedAt.IsZero()
	reaches := sealed && need != nil && pass.Through != nil && *pass.Through == *need
	if sealed && !reaches {
		return need // it found less of what others prove
	}
	if len(p.Passes) < maxPasses {
		p.Passes = append(p.Passes, *pass)
	}
	if pass.State != "" {
		p.Undone += pass.Total - pass.Live - pass.Succeeded - pass.Failed
	}
	if !reaches {
		return need
	}
	p.Covered = pass.Whole || pass.From == nil
	return pass.From
}

// Problems says why not all is done that the plan is for, by the ledger and its tasks alone; nothing: it is.
func (p *ChunkProof) Problems() (all []string) {
	if !p.Covered {
		all = append(all, "no sealed passes lead from the table's begin to "+p.end()+": see `leasehold chunks show`")
	}
	return all
}

// Unfinished says which tasks of the plan have not done their work; nothing: all have.
func (p *ChunkProof) Unfinished() (all []string) {
	if p.Live > 0 {
		all = append(all, fmt.Sprintf("chunks that have not finished: %d", p.Live))
	}
	if n := len(p.Failed); n > 0 {
		all = append(all, fmt.Sprintf("ranges that failed: %s: `leasehold chunks retry` runs those with a task", atMost(n, maxObstacles)))
	}
	if p.Undone > 0 {
		all = append(all, fmt.Sprintf("chunks that were cancelled or rolled back: %d", p.Undone))
	}
	return all
}

func (p *ChunkProof) end() string {
	if p.Through == nil {
		return "its end"
	}
	return fmt.Sprintf("the key %q", string(*p.Through))
}

// atMost is a number that was counted up to most.
func atMost(n, most int) string {
	if n >= most {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}

// FailedRanges lists the ranges of a plan that failed and that no later pass has planned again, in the order of passes and keys, and
// returns the store's time.
func FailedRanges(ctx context.Context, s ChunkPlans, name string) (list []FailedRange, now time.Time, err error) {
	look, err := s.LookPlan(ctx, name, maxObstacles)
	if err != nil {
		return nil, now, chunksError(name, err)
	}
	list = []FailedRange{}
	for i := range look.Obstacles {
		if o := &look.Obstacles[i]; o.State == store.ChunkFailed {
			list = append(list, FailedRange{
				ChunkRange: o.Range, Rows: o.Rows, Task: o.ID, Passes: o.Failures, Held: o.Failures >= store.ChunkHeldAfter,
			})
		}
	}
	return list, look.Now, nil
}
