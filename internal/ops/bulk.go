package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Bulks is what changes of all tasks that match a filter need of the store.
type Bulks interface {
	// StartBulk starts a bulk change, and returns its id. It bounds the ids of the tasks that it looks at.
	StartBulk(ctx context.Context, r store.BulkRequest) (int64, error)
	// StopBulk stops a bulk change; what it has changed stays so. It does nothing where that has ended.
	StopBulk(ctx context.Context, id int64, by string) error
	// GetBulk returns a bulk change; ErrNoBulk where there is none.
	GetBulk(ctx context.Context, id int64) (*store.Bulk, error)
}

// BulkWork is what carries bulk changes on: a batch.Bulk on the store.
type BulkWork interface {
	// CarryOn takes a step of at most rows tasks, and reports whether the change has come further by that. It keeps b up to date.
	CarryOn(ctx context.Context, b *store.Bulk, rows int) (moved bool, err error)
	// Count counts the tasks that match, the newest first, until it has looked at most of them or so long.
	Count(ctx context.Context, r *store.BulkRequest, most int, within time.Duration) (store.BulkCount, error)
}

// BulkInfo is a bulk change as people see it.
type BulkInfo struct {
	ID          int64            `json:"id"`
	Verb        string           `json:"verb"`
	Filter      store.BulkFilter `json:"filter"`
	State       string           `json:"state"`    // running, stopped or ended
	Progress    float64          `json:"progress"` // 0 to 1: of the ids that it looks at
	Looked      int64            `json:"looked"`
	Done        int64            `json:"done"`
	Refused     int64            `json:"refused,omitempty"`
	Locked      int              `json:"locked,omitempty"`  // to be looked at again
	Skipped     int64            `json:"skipped,omitempty"` // that stayed locked
	RequestedAt time.Time        `json:"requested_at"`
	RequestedBy string           `json:"requested_by,omitempty"`
	Reason      string           `json:"reason,omitempty"`
	EndedAt     *time.Time       `json:"ended_at,omitempty"`
}

// BulkPreview is how many tasks a bulk change would be for.
type BulkPreview struct {
	Tasks  int64 `json:"tasks"`
	Capped bool  `json:"capped,omitempty"` // there may be more: it has not looked at all tasks
	// LookedBack is the oldest task that it has looked at; nil: it has looked at all.
	LookedBack *LookedBack `json:"looked_back_to,omitempty"`
	DryRun     bool        `json:"dry_run"`
}

// Bounds of a preview.
const (
	countMost   = 200_000               // tasks that it looks at, the newest first
	countFor    = 80 * time.Millisecond // looks that would be over later are not taken
	countWithin = 20 * time.Second      // of a store that is slow to reply
)

// Bounds of following a bulk change.
const (
	bulkRows = 250                    // tasks of one step
	bulkGap  = 200 * time.Millisecond // between two looks while agents carry it on
	bulkWait = time.Second            // while the store is out of reach
)

// PreviewBulk counts the tasks that match. It changes nothing.
func PreviewBulk(ctx context.Context, w BulkWork, r store.BulkRequest) (p BulkPreview, err error) {
	if err := checkBulk(&r); err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	c, err := w.Count(ctx, &r, countMost, countFor)
	if err != nil {
		return p, err
	}
	p = BulkPreview{Tasks: c.Tasks, Capped: !c.All, DryRun: true}
	if p.Capped {
		p.LookedBack = &LookedBack{ID: c.Back, CreatedAt: &c.BackTo}
	}
	return p, nil
}

// StartBulk starts a bulk change, which agents carry on, and returns its id.
func StartBulk(ctx context.Context, s Bulks, r store.BulkRequest) (id int64, err error) {
	if err := checkBulk(&r); err != nil {
		return 0, err
	}
	call, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	return s.StartBulk(call, r)
}

// checkBulk finds mistakes in a request, as *InputError.
func checkBulk(r *store.BulkRequest) error {
	f := &r.Filter
	if err := Verb(r.Verb).check(r.By); err != nil {
		return err
	}
	if f.Empty() {
		return &store.InputError{Text: "a filter is needed: a type, a state, a label, a batch, an error signature or since when"}
	}
	for _, s := range f.States {
		if known := store.BulkStates(r.Verb); !slices.Contains(known, s) {
			return &store.InputError{Text: fmt.Sprintf("state %s: %s does not change such tasks: use %s", s, r.Verb, strings.Join(texts(known), ", "))}
		}
	}
	if f.Batch < 0 {
		return &store.InputError{Text: fmt.Sprintf("batch %d: there is no such batch", f.Batch)}
	}
	const most = 4096
	given := []string{f.Type, f.Signature, r.Reason}
	for name, value := range f.Labels {
		given = append(given, name, value)
	}
	if slices.ContainsFunc(given, func(s string) bool { return len(s) > most || !store.Storable(s) }) {
		return &store.InputError{Text: fmt.Sprintf("the filter and the reason must be UTF-8 without NUL, %d bytes at most each", most)}
	}
	if len(r.Reason) > store.MaxReason {
		return &store.InputError{Text: fmt.Sprintf("the reason must be %d bytes at most", store.MaxReason)}
	}
	return nil
}

func texts(states []task.State) []string {
	list := make([]string, len(states))
	for i, s := range states {
		list[i] = string(s)
	}
	return list
}

// GetBulk returns a bulk change.
func GetBulk(ctx context.Context, s Bulks, id int64) (*BulkInfo, error) {
	call, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	b, err := s.GetBulk(call, id)
	if err != nil {
		return nil, bulkError(id, err)
	}
	return bulkInfo(b), nil
}

// StopBulk stops a bulk change, and returns it.
func StopBulk(ctx context.Context, s Bulks, id int64, by string) (*BulkInfo, error) {
	if err := checkBy(by); err != nil {
		return nil, err
	}
	if _, err := GetBulk(ctx, s, id); err != nil {
		return nil, err
	}
	call, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	if err := s.StopBulk(call, id, by); err != nil {
		return nil, err
	}
	return GetBulk(ctx, s, id)
}

func bulkError(id int64, err error) error {
	if errors.Is(err, store.ErrNoBulk) {
		return fmt.Errorf("there is no change %d (or its retention is over): %w", id, store.ErrNoBulk)
	}
	return err
}

func bulkInfo(b *store.Bulk) *BulkInfo {
	i := &BulkInfo{
		ID: b.ID, Verb: b.Verb, Filter: b.Filter, State: "running", Progress: 1, Looked: b.Looked, Done: b.Done, Refused: b.Refused,
		Locked: len(b.Again), Skipped: b.Skipped, RequestedAt: b.RequestedAt.UTC(), RequestedBy: b.By, Reason: b.Reason,
	}
	if b.EndedAt != nil {
		at := b.EndedAt.UTC()
		i.EndedAt, i.State = &at, "ended"
	}
	if b.Stopped {
		i.State = "stopped"
	}
	if i.State != "ended" && b.UpTo > b.From {
		i.Progress = float64(b.After-b.From) / float64(b.UpTo-b.From)
	}
	return i
}

// BulkWatch says what happens while a bulk change is followed.
type BulkWatch struct {
	Seen    func(*BulkInfo) error // after each look
	Trouble func(error)           // the store is out of reach; it goes on
}

// FollowBulk follows a bulk change to its end, and returns it then. Where no agent carries it on, work does.
func FollowBulk(ctx context.Context, s Bulks, work BulkWork, id int64, w BulkWatch) (*BulkInfo, error) {
	f := following{s: s, work: work, id: id, w: w, seen: -1}
	for {
		f.rest = bulkGap
		b, err := f.once(ctx)
		switch {
		case errors.Is(err, store.ErrNoBulk), errors.Is(err, errShown), ctx.Err() != nil && err != nil:
			return nil, bulkError(id, err)
		case err != nil:
			w.Trouble(err)
			f.rest = bulkWait
		case b.EndedAt != nil:
			return bulkInfo(b), nil
		}
		pause := time.NewTimer(f.rest)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, ctx.Err()
		case <-pause.C:
		}
	}
}

// errShown means that what was seen could not be shown.
var errShown = errors.New("cannot show it")

// following is a bulk change that is being followed.
type following struct {
	s    Bulks
	work BulkWork
	id   int64
	w    BulkWatch
	seen int64         // its version after the last look; -1: there was none
	rest time.Duration // before the next look
}

// once looks at the change, and carries it on if no other has since the last look.
func (f *following) once(ctx context.Context) (*store.Bulk, error) {
	call, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	b, err := f.s.GetBulk(call, f.id)
	if err != nil {
		return nil, err
	}
	if err := f.w.Seen(bulkInfo(b)); err != nil {
		return nil, errors.Join(errShown, err)
	}
	still := b.Version == f.seen
	f.seen = b.Version
	if b.EndedAt != nil || !still {
		return b, nil
	}
	moved, err := f.work.CarryOn(call, b, bulkRows)
	if err != nil {
		return nil, err
	}
	if moved {
		f.rest, b.EndedAt = 0, nil // the next look reads how it ended
	}
	f.seen = b.Version
	return b, nil
}
