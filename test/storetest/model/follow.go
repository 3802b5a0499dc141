package model

import (
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// A follower is a row that waits until the live row of its type and key has ended for good: one for each.

// checkOnLive refuses what contradicts itself.
func checkOnLive(r store.EnqueueRequest) error {
	live := r.Live()
	switch {
	case live != store.OnLiveKeep && live != store.OnLiveReplace && live != store.OnLiveAgain,
		r.Debounce < 0, r.DebounceMax != 0 && r.DebounceMax < r.Debounce, r.DebounceMax != 0 && r.Debounce == 0,
		r.Debounce != 0 && (live != store.OnLiveReplace || r.In != 0 || !r.RunAt.IsZero()),
		live != store.OnLiveKeep && (r.Key == "" || r.Batch != 0 || len(r.After) > 0):
		return &store.InputError{Text: "the request contradicts itself"}
	}
	return nil
}

// meet is what becomes of a new row whose type and key a live one has.
func (s *Store) meet(r store.EnqueueRequest, row, live *Row) (task.ID, store.Enqueued) {
	mode, place := r.Live(), live.typeAndKey()
	before := s.follow[place]
	switch {
	case mode == store.OnLiveKeep:
		return live.ID, store.EnqueuedKept
	case mode == store.OnLiveReplace && live.State == task.StatePending && !live.EverStarted && before == nil:
		held := live.Held
		s.leave(live, time.Time{}) // others may wait for its lock behind it
		s.noteTurn(live, time.Time{})
		if held == task.HoldAfter {
			live.Held = held
		}
		live.replace(row, r.DebounceMax)
		live.Deadline = time.Time{}
		s.notify(store.Due)
		return live.ID, store.EnqueuedReplaced
	case before != nil:
		before.replace(row, r.DebounceMax)
		return before.ID, store.EnqueuedFollows
	}
	s.lastTask++
	row.ID = s.lastTask
	s.follow[place] = row
	return row.ID, store.EnqueuedFollows
}

func (r *Row) typeAndKey() [2]string { return [2]string{r.Type, r.Key} }

// replace gives the row the values of another, which is due at most so long after the row was first inserted; 0: whenever it says.
func (r *Row) replace(by *Row, most time.Duration) {
	r.Lock, r.Sequence, r.Tenant = by.Lock, by.Sequence, by.Tenant
	r.Spilled, r.FirstDue = false, time.Time{}
	r.Payload, r.RollbackPayload, r.Priority, r.Region = by.Payload, by.RollbackPayload, by.Priority, by.Region
	r.MaxAttempts, r.Labels, r.Traceparent, r.CreatedBy, r.RunAt = by.MaxAttempts, by.Labels, by.Traceparent, by.CreatedBy, by.RunAt
	if latest := r.CreatedAt.Add(most); most != 0 && latest.Before(r.RunAt) {
		r.RunAt = latest
	}
}

// moveToArchive moves a row that has ended for good to the archive. Its follower becomes a task, due once nothing of the row is at work.
func (s *Store) moveToArchive(r *Row) {
	delete(s.live, r.ID)
	s.archive[r.ID] = r
	r.Spilled, r.FirstDue = false, time.Time{}
	s.leftSequence(r)
	f := s.follow[r.typeAndKey()]
	if f == nil {
		return
	}
	delete(s.follow, r.typeAndKey())
	if f == r {
		return // it was cancelled
	}
	f.RunAt, f.Fence = r.over(f.RunAt), 1
	s.add(f)
}

// find returns a task, live or finished, or a follower; nil where there is none.
func (s *Store) find(id task.ID) *Row {
	if r := s.live[id]; r != nil {
		return r
	}
	for _, f := range s.follow {
		if f.ID == id {
			return f
		}
	}
	return s.archive[id]
}

// follows returns the live task that a follower waits for; 0 where the row is none.
func (s *Store) follows(r *Row) task.ID {
	if s.follow[r.typeAndKey()] != r {
		return 0
	}
	return s.keyed(r).ID
}
