package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
)

// Orphans is what operators' work on rows that no agent claims needs of the store.
type Orphans interface {
	// Orphans lists the types of waiting rows that no present agent with workers declares, by name, store.OrphanTypes at most. Of each it counts
	// store.CountedOf rows at most.
	Orphans(ctx context.Context) (store.OrphanList, error)
	// CancelOrphans is one step in cancelling the waiting rows of a type: they become what Operator.Cancel makes of them. It changes
	// store.OrphansChanged rows at most, and leaves those that another transaction works on (Left). Refused (*store.RefusedError) where a
	// present agent with workers declares the type. A step may be repeated.
	CancelOrphans(ctx context.Context, o store.OrphanStep) (store.OrphansStepped, error)
	// MoveOrphans is one step in giving the waiting rows of a type another one, as CancelOrphans. A row goes with its followers. Rows with a
	// sequence go all at once, or stay (Left), so that they keep their order.
	MoveOrphans(ctx context.Context, o store.OrphanStep) (store.OrphansStepped, error)
}

// OrphanChange is a change of all waiting rows of a type that no present agent declares.
type OrphanChange struct {
	Type   string
	Into   string // the type that they are to get; "": they are to be cancelled
	By     string
	Reason string
}

// OrphansChanged is what came of such a change, or would come.
type OrphansChanged struct {
	Type      string             `json:"type"`
	Into      string             `json:"into,omitempty"`
	Changed   int                `json:"changed"`
	RollsBack int                `json:"rolls_back,omitempty"` // of these: they wait to be rolled back
	Stay      int                `json:"stay,omitempty"`       // rows that could not be changed
	Left      []store.OrphanLeft `json:"left,omitempty"`       // these, the first OrphansNamed of them
	DryRun    bool               `json:"dry_run,omitempty"`    // nothing was changed
}

// OrphansNamed is how many of the rows that stay are named.
const OrphansNamed = 1000

// orphanPasses bounds how often the rows of a type are gone through: what comes meanwhile, or was busy, is met by the next pass.
const orphanPasses = 10

// ChangeOrphans moves or cancels the waiting tasks of a type that no present agent declares, step by step; with preview it counts them and
// changes nothing. Where it fails, what it returns was done before. A step that is repeated changes what is left.
func ChangeOrphans(ctx context.Context, s Orphans, c OrphanChange, preview bool) (sum OrphansChanged, err error) {
	sum = OrphansChanged{Type: c.Type, Into: c.Into, DryRun: preview}
	if err := checkChange(c.Type, c.Reason, c.By); err != nil {
		return sum, err
	}
	step := s.CancelOrphans
	if c.Into != "" {
		step = s.MoveOrphans
		if err := checkChange(c.Into, c.Reason, c.By); err != nil {
			return sum, err
		}
		if c.Into == c.Type {
			return sum, &store.InputError{Text: "the two types are the same"}
		}
	}
	o := store.OrphanStep{Type: c.Type, Into: c.Into, By: c.By, Reason: c.Reason, Preview: preview}
	for range orphanPasses {
		before := sum.Changed
		sum.Stay, sum.Left, o.From = 0, nil, store.OrphanCursor{}
		for done := false; !done; {
			var one store.OrphansStepped
			call, cancel := context.WithTimeout(ctx, changeWithin)
			one, err = step(call, o)
			cancel()
			if err != nil {
				return sum, err
			}
			sum.add(one)
			o.From, done = one.Next, one.Done
		}
		if o.Preview || sum.Changed == before {
			break
		}
	}
	return sum, nil
}

// add adds what a step has done.
func (s *OrphansChanged) add(one store.OrphansStepped) {
	s.Changed += one.Changed
	s.RollsBack += one.RollsBack
	for _, l := range one.Left {
		s.Stay += l.Rows
		if len(s.Left) < OrphansNamed {
			s.Left = append(s.Left, l)
		}
	}
}

// WhyOrphanStays says why a row stays, to people.
func WhyOrphanStays(l store.OrphanLeft) string {
	switch l.Reason {
	case store.OrphanBusy:
		return "another transaction works on it: repeat the command"
	case store.OrphanKey:
		return "a live task of the other type has its key"
	case store.OrphanNoRollback:
		return "it may have to be rolled back, and the other type has no rollback"
	case store.OrphanRunning:
		return "a task of its sequence runs, or may still be at work"
	case store.OrphanFailure:
		return "a failure blocks its sequence: resolve that first"
	case store.OrphanLong:
		return "its sequence has more than 1,000 tasks, which cannot be moved at once"
	}
	return string(l.Reason)
}
