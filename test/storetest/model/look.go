package model

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// agentsKept is how long the row of a session that is not seen any more stays.
const agentsKept = 7 * 24 * time.Hour

// Get returns a task with its history.
func (s *Store) Get(ctx context.Context, id task.ID) (*store.TaskInfo, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r := s.find(id)
	if r == nil {
		return nil, fmt.Errorf("get task %d: %w", id, store.ErrNoTask)
	}
	info := s.info(r)
	info.Output = r.Output
	info.Related = s.related(r)
	if f := s.follow[r.typeAndKey()]; f != nil && f != r && s.live[id] != nil {
		info.FollowedBy = f.ID
	}
	for _, a := range s.attempts[id] {
		a.Agent, a.ReapedBy = s.nameOf(a.Session), s.nameOf(a.ReapedSession)
		info.History = append(info.History, a.AttemptInfo)
	}
	return &info, nil
}

// List returns tasks that match, newest first.
func (s *Store) List(ctx context.Context, f store.TaskFilter) ([]store.TaskInfo, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.TaskInfo
	for _, table := range []map[task.ID]*Row{s.live, s.archive} {
		for _, r := range table {
			if matches(f, r) {
				out = append(out, s.info(r))
			}
		}
	}
	for _, r := range s.follow {
		if matches(f, r) {
			out = append(out, s.info(r))
		}
	}
	slices.SortFunc(out, func(a, b store.TaskInfo) int { return cmp.Compare(b.ID, a.ID) })
	return out[:min(store.PageSize(f.Limit), len(out))], nil
}

// Counts is Stats: there are few rows.
func (s *Store) Counts(ctx context.Context) (store.Stats, error) { return s.Stats(ctx) }

// Window returns all tasks: they are in memory.
func (s *Store) Window(context.Context, store.TaskFilter, int) (w store.Window, err error) {
	return w, nil
}

func matches(f store.TaskFilter, r *Row) bool {
	labels := map[string]string{}
	if r.Labels != nil && json.Unmarshal(r.Labels, &labels) != nil {
		return false
	}
	for name, value := range f.Labels {
		if has, there := labels[name]; !there || has != value {
			return false
		}
	}
	return (f.Type == "" || f.Type == r.Type) &&
		(f.Key == "" || f.Key == r.Key) &&
		(f.Batch == 0 || f.Batch == r.Batch) &&
		(f.Before == 0 || r.ID < f.Before) && r.ID >= f.Window.From &&
		(len(f.States) == 0 || slices.Contains(f.States, r.State))
}

// info is the row as people see it.
func (s *Store) info(r *Row) store.TaskInfo {
	i := store.TaskInfo{
		ID: r.ID, Type: r.Type, State: r.State, Priority: r.Priority, Region: r.Region, Spilled: r.Spilled, Key: r.Key,
		Labels: r.Labels, Payload: r.Payload, Result: r.Result, Error: s.shownError(r), Outcome: r.Outcome,
		Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, Deferrals: r.Deferrals, EverStarted: r.EverStarted,
		Fence: r.Fence, Session: r.Session, CreatedBy: r.CreatedBy, Traceparent: r.Traceparent,
		CreatedAt: r.CreatedAt, RunAt: r.RunAt,
		ClaimedAt: known(r.ClaimedAt), LeaseEnd: known(r.LeaseEnd), Deadline: known(r.Deadline),
		FinishedAt: known(r.FinishedAt),
		Progress:   r.Progress, Message: r.Message, Checkpoint: r.Checkpoint,
		CancelRequested: known(r.CancelRequested), CancelRequestedBy: r.CancelRequestedBy, Detached: r.Detached,
		Batch: r.Batch, Lock: r.Lock, Sequence: r.Sequence, Tenant: r.Tenant, Held: r.Held, Round: r.Round, RollbackPayload: r.RollbackPayload, Cause: r.Cause,
		Follows: s.follows(r),
	}
	if r.FailedTask != r.ID {
		i.FailedTask = r.FailedTask
	}
	for _, a := range s.attempts[r.ID] {
		if a.Settled == r.Fence-1 { // it was the last, and no session has claimed the row since
			i.Session = a.Session
		}
	}
	i.Agent = s.nameOf(i.Session)
	return i
}

// shownError is the error of a row. Where an attempt to roll it back has ended, it is that of the last attempt to run it.
func (s *Store) shownError(r *Row) string {
	switch r.State {
	case task.StateRollbackPending, task.StateRollbackRunning, task.StateRolledBack:
		if h := s.attempts[r.ID]; len(h) > 0 && h[len(h)-1].Phase == task.Rollback {
			return s.lastRun(r.ID).Error
		}
	}
	return r.Error
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Stats counts.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return store.Stats{}, err
	}
	defer s.mu.Unlock()
	stats := store.Stats{
		Due: map[string]int64{}, OldestDue: map[string]time.Duration{}, Orphans: map[string]int64{},
	}
	declared := map[string]bool{}
	for session, a := range s.agents {
		if s.present(session, now) && a.Workers > 0 { // not an observer
			stats.AgentsPresent++
			for _, name := range a.Types {
				declared[name] = true
			}
		}
	}
	counts := map[store.TypeCount]int64{}
	for _, r := range s.live {
		counts[store.TypeCount{Type: r.Type, State: r.State}]++
		if !r.State.Waiting() {
			continue
		}
		if !declared[r.Type] {
			stats.Orphans[r.Type]++
		}
		if ago := now.Sub(r.RunAt); ago >= 0 && r.Held == "" {
			stats.Due[r.Type]++
			stats.OldestDue[r.Type] = max(stats.OldestDue[r.Type], ago)
		}
	}
	stats.BatchTasks = s.unended()
	for of, n := range counts {
		stats.Waiting = append(stats.Waiting, store.TypeCount{Type: of.Type, State: of.State, N: n})
	}
	return stats, nil
}

// Takers counts the agents that claim tasks, and those of them that claim tasks of a type.
func (s *Store) Takers(ctx context.Context, typ string) (store.Takers, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return store.Takers{}, err
	}
	defer s.mu.Unlock()
	var t store.Takers
	for session, a := range s.agents {
		if !s.present(session, now) || a.Workers == 0 || a.Order != "" {
			continue
		}
		t.Agents++
		if slices.Contains(a.Types, typ) {
			t.OfType++
		}
	}
	return t, nil
}

// Ping finds the store well.
func (s *Store) Ping(ctx context.Context) error { return ctx.Err() }

// Maintain removes what finished more than retention ago, its history, batches of which nothing is left, and sessions
// that were not seen for long. What belongs to a batch that has not ended stays, and so does what rows name
// that wait.
func (s *Store) Maintain(ctx context.Context, retention time.Duration) (removed int64, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	s.forgetActivity(now)
	s.noteFailedChunks()
	for id, r := range s.archive {
		b := s.batches[r.Batch]
		if now.Sub(r.FinishedAt) > retention && (b == nil || b.ended()) && !s.turns.failed[r.ID] && !s.isNamed(id) {
			if b != nil {
				b.Gone[r.State]++
			}
			delete(s.archive, id)
			delete(s.attempts, id)
			removed++
		}
	}
	for id, b := range s.batches {
		if b.ended() && now.Sub(b.EndedAt) > retention && len(s.of(id)) == 0 {
			delete(s.batches, id)
		}
	}
	for session, a := range s.agents {
		holds := func(r *Row) bool { return r.State.Running() && r.Session == session }
		if now.Sub(a.SeenAt) > agentsKept && len(s.rows(holds)) == 0 {
			delete(s.agents, session)
		}
	}
	s.forgetLeases(retention, now)
	s.forgetChunks(retention, now)
	return removed, nil
}
