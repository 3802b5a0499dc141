package storetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// view is a task with all that differs between two stores that are right taken out: numbers are places in the
// machine's lists, times are halves of a step from the task's beginning, JSON is written in one way.
type view struct {
	Row                                              int
	Type, Region, Key, Labels, Agent                 string
	State                                            task.State
	Payload, Result, Error, Output                   string
	Outcome                                          task.Verdict
	Priority, Attempt, MaxAttempts                   int
	Deferrals, Session                               int
	EverStarted, Spilled                             bool
	Fence                                            task.Fence
	Due, Claimed, LeaseEnd, Deadline, Finish         int
	Progress, Message, Checkpoint, CancelRequestedBy string
	CancelNews                                       int
	Detached                                         bool
	Cause                                            task.Verdict
	Round                                            int
	RollbackPayload                                  string
	Follows, FollowedBy                              int // the row that a follower waits for, and the follower of a row
	FailedTask                                       int // for which on_failed has inserted it
	Lock, Sequence, Tenant                           string
	Held                                             task.Hold
	History                                          []attemptView
}

type attemptView struct {
	Fence          task.Fence
	Session        int
	Agent          string
	Reaped         int // the session that settled it
	ReapedBy       string
	Policy         task.PolicyHash
	Phase          task.Phase
	Attempt        int
	Outcome        task.Verdict
	Error, Output  string
	Result         string
	State          task.State
	Started, Ended int
}

// never is the view of a time that is not there.
const never = math.MinInt

// halves is how many halves of a step lie between two times.
func halves(from, to time.Time) int { return inHalves(to.Sub(from)) }

func inHalves(d time.Duration) int { return int(math.Round(float64(d) / float64(half))) }

func halvesTo(from time.Time, to *time.Time) int {
	if to == nil {
		return never
	}
	return halves(from, *to)
}

// oneWay writes JSON in one way.
func oneWay(raw json.RawMessage) string {
	if raw == nil {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "not JSON: " + string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return "not JSON: " + string(raw)
	}
	return string(out)
}

type (
	taskSide    = func(pair[task.ID]) task.ID
	sessionSide = func(pair[task.Session]) task.Session
)

func (m *machine) view(i *store.TaskInfo, ids taskSide, sessions sessionSide) view {
	v := view{
		Row:  place(m.tasks, ids, i.ID),
		Type: i.Type, Region: i.Region, Spilled: i.Spilled, Key: i.Key, Labels: oneWay(i.Labels), Agent: i.Agent,
		State: i.State, Payload: m.payload(place(m.tasks, ids, i.ID), i.Payload), Result: m.result(i.Result, ids),
		Error: m.reason(i.Error, ids), Output: i.Output,
		Outcome: i.Outcome, Priority: i.Priority, Attempt: i.Attempt, MaxAttempts: i.MaxAttempts,
		Deferrals: i.Deferrals, Session: place(m.sessionPairs(), sessions, i.Session),
		EverStarted: i.EverStarted, Fence: i.Fence,
		Due: halves(i.CreatedAt, i.RunAt), Claimed: halvesTo(i.CreatedAt, i.ClaimedAt),
		LeaseEnd: halvesTo(i.CreatedAt, i.LeaseEnd), Deadline: halvesTo(i.CreatedAt, i.Deadline),
		Finish:   halvesTo(i.CreatedAt, i.FinishedAt),
		Progress: oneWay(i.Progress), Message: i.Message, Checkpoint: oneWay(i.Checkpoint), CancelRequestedBy: i.CancelRequestedBy,
		CancelNews: halvesTo(i.CreatedAt, i.CancelRequested), Detached: i.Detached,
		Cause: i.Cause, Round: i.Round, RollbackPayload: oneWay(i.RollbackPayload), Follows: place(m.tasks, ids, i.Follows),
		FollowedBy: place(m.tasks, ids, i.FollowedBy), FailedTask: place(m.tasks, ids, i.FailedTask),
		Lock: i.Lock, Sequence: i.Sequence, Tenant: i.Tenant, Held: i.Held,
	}
	if i.State.Finished() {
		v.Claimed, v.LeaseEnd = never, never // the archive may keep them or not
	}
	return v
}

// whole is a view with the history.
func (m *machine) whole(i *store.TaskInfo, ids taskSide, sessions sessionSide) view {
	v := m.view(i, ids, sessions)
	for _, a := range i.History {
		v.History = append(v.History, attemptView{
			Fence: a.Fence, Session: place(m.sessionPairs(), sessions, a.Session), Policy: a.Policy, Phase: a.Phase, Attempt: a.Attempt,
			Agent: a.Agent, Reaped: place(m.sessionPairs(), sessions, a.ReapedSession), ReapedBy: a.ReapedBy,
			Outcome: a.Outcome, Error: a.Error, Output: a.Output, Result: m.result(a.Result, ids), State: a.State,
			Started: halvesTo(i.CreatedAt, a.StartedAt), Ended: halves(i.CreatedAt, a.EndedAt),
		})
	}
	return v
}

func (m *machine) views(list []store.TaskInfo, ids taskSide, sessions sessionSide) []view {
	out := make([]view, len(list))
	for i := range list {
		out[i] = m.view(&list[i], ids, sessions)
	}
	return out
}

// taskView is a claimed task in the same manner.
type taskView struct {
	Row                                int
	Type, Region, Key                  string
	State                              task.State
	Fence, Ran                         task.Fence
	RanSession                         int
	RanAgent                           string
	Attempt, MaxAttempts, Deferrals    int
	EverStarted, Spilled               bool
	Payload, Result, Labels            string
	Priority                           int
	Previous                           task.Previous
	Policy                             task.PolicyHash
	Due, Claimed, LeaseEnd             int
	Deadline, Left                     int
	Present, Detached, CancelRequested bool
	HasAfter                           bool
	Checkpoint, RollbackPayload        string
	Cause                              task.Verdict
	Round                              int
}

func (m *machine) taskView(t *task.Task, ids taskSide) taskView {
	v := taskView{
		Row:  place(m.tasks, ids, t.ID),
		Type: t.Type, Region: t.Region, Spilled: t.Spilled, Key: t.Key, State: t.State, Fence: t.Fence,
		Attempt: t.Attempt, MaxAttempts: t.MaxAttempts, Deferrals: t.Deferrals, EverStarted: t.EverStarted,
		Payload: m.payload(place(m.tasks, ids, t.ID), t.Payload), Result: m.result(t.Result, ids), Labels: oneWay(t.Labels), Priority: t.Priority,
		Policy: t.Policy, CancelRequested: t.CancelRequested, HasAfter: t.HasAfter, Checkpoint: oneWay(t.Checkpoint),
		Due: halves(t.CreatedAt, t.RunAt), Claimed: halves(t.CreatedAt, t.ClaimedAt),
		LeaseEnd: halves(t.CreatedAt, t.LeaseEnd), Deadline: never,
		Cause: t.Cause, Round: t.Round, RollbackPayload: oneWay(t.RollbackPayload),
	}
	if !t.Deadline.IsZero() {
		v.Deadline = halves(t.CreatedAt, t.Deadline)
	}
	if t.Previous != nil {
		v.Previous = *t.Previous
	}
	return v
}

func (m *machine) taskViews(list []task.Task, ids taskSide) []taskView {
	out := make([]taskView, len(list))
	for i := range list {
		out[i] = m.taskView(&list[i], ids)
	}
	return out
}

// byRow sorts what comes in no order.
func byRow(views []taskView) []taskView {
	slices.SortFunc(views, func(a, b taskView) int { return cmp.Compare(a.Row, b.Row) })
	return views
}

// statsView is the counts in the same manner.
type statsView struct {
	Waiting []store.TypeCount
	Oldest  map[string]int
	Orphans map[string]int64
	Present int
}

func counts(s store.Stats) statsView {
	v := statsView{Oldest: map[string]int{}, Orphans: map[string]int64{}, Present: s.AgentsPresent}
	v.Waiting = append(v.Waiting, s.Waiting...)
	slices.SortFunc(v.Waiting, func(a, b store.TypeCount) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.State, b.State))
	})
	for typ, ago := range s.OldestDue {
		if n := inHalves(ago); n > 0 {
			v.Oldest[typ] = n
		}
	}
	for typ, n := range s.Orphans {
		if n > 0 {
			v.Orphans[typ] = n
		}
	}
	return v
}
