package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// TaskPage is a page of a list of tasks.
type TaskPage struct {
	Tasks []Task // newest first; not nil
	// Before is where the next page begins: its tasks have lower ids. 0: there is none.
	Before task.ID
	// LookedBack says how far a search went that was ended before the page was full; nil: it was not.
	LookedBack *LookedBack
}

// LookedBack is the oldest task that a search has looked at.
type LookedBack struct {
	ID        task.ID    `json:"id"`
	CreatedAt *time.Time `json:"created_at,omitempty"` // nil: it is no more there
}

// String says so.
func (b *LookedBack) String() string {
	back := fmt.Sprintf("looked back to task %d", b.ID)
	if b.CreatedAt != nil {
		back += ", which was inserted at " + Time(*b.CreatedAt)
	}
	return back
}

// Bounds of a page.
const (
	taskStep = 50 // tasks that are read at once: however large they are, no more than that are in memory beyond a page's bound

	// Where no index has just the tasks that a filter is for, a page looks through tasks, step by step.
	lookFirst = 1000                  // tasks in the first step, of each table; each further one has twice as many
	lookStep  = 8_000                 // tasks in a step, at most
	lookMost  = 100_000               // tasks in all, at most
	lookFor   = 40 * time.Millisecond // steps that would be over later are shorter
)

// PageTasks returns tasks that match, newest first, without history and output. The page ends after the task with which its documents
// exceed so many bytes (0: it has no such bound), and where it has looked through as many tasks as it may.
func PageTasks(ctx context.Context, s Store, f store.TaskFilter, most int) (p TaskPage, err error) {
	p.Tasks = []Task{}
	look := looking{s: s, began: time.Now(), next: lookFirst}
	limit, bytes := store.PageSize(f.Limit), 0
	for {
		f.Limit = min(limit-len(p.Tasks), taskStep)
		found, from, err := look.step(ctx, f)
		if err != nil {
			return p, err
		}
		masks, err := ReadRedactions(ctx, s) // after what it is for
		if err != nil {
			return p, err
		}
		for i := range found {
			p.Tasks = append(p.Tasks, *masks.Task(&found[i]))
			if bytes += size(&found[i]); most > 0 && bytes > most {
				p.Before = found[i].ID
				return p, nil
			}
		}
		switch {
		case len(p.Tasks) == limit:
			p.Before = p.Tasks[limit-1].ID
			return p, nil
		case len(found) == f.Limit:
			if f.Before = found[len(found)-1].ID; from > 0 && look.over() {
				p.Before = f.Before
				return p, nil
			}
		case from == 0:
			return p, nil
		case look.over():
			p.Before, p.LookedBack = from, look.back(ctx, from)
			return p, nil
		default:
			f.Before = from
		}
	}
}

// looking is one search.
type looking struct {
	s      Store
	began  time.Time
	next   int // tasks that the next step looks through
	looked int
}

// step looks through the next tasks. It returns those that match, and the lowest id that it has looked at; 0: there are no more.
func (l *looking) step(ctx context.Context, f store.TaskFilter) (found []store.TaskInfo, from task.ID, err error) {
	if f.Window, err = l.s.Window(ctx, f, l.next); err != nil {
		return nil, 0, err
	}
	if found, err = l.s.List(ctx, f); err != nil {
		return nil, 0, err
	}
	if f.Window.From > 0 {
		l.looked += l.next
		l.next = min(2*l.next, lookStep)
	}
	return found, f.Window.From, nil
}

// over reports whether the search ends here, and shortens the next step where the whole would take too long.
func (l *looking) over() bool {
	spent := time.Since(l.began)
	if l.looked >= lookMost || spent >= lookFor {
		return true
	}
	l.next = min(l.next, lookMost-l.looked, max(lookFirst/5, int(float64(l.looked)*float64(lookFor-spent)/float64(spent+1))))
	return false
}

// back returns how far the search went. Where the task has gone it has no time.
func (l *looking) back(ctx context.Context, from task.ID) *LookedBack {
	b := &LookedBack{ID: from}
	if list, err := l.s.List(ctx, store.TaskFilter{Before: from + 1, Limit: 1}); err == nil && len(list) == 1 {
		b.CreatedAt = &list[0].CreatedAt
	}
	return b
}

// size is how many bytes the documents of a task have.
func size(i *store.TaskInfo) int {
	return len(i.Payload) + len(i.RollbackPayload) + len(i.Result) + len(i.Checkpoint) + len(i.Labels) + len(i.Error) + len(i.Progress)
}
