package ops

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// situation is a pending task of type a, due for a minute, and an agent that would take it.
func situation(change func(w *store.Situation)) *store.Situation {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	w := &store.Situation{
		Now:  now,
		Task: &store.TaskInfo{ID: 7, Type: "a", State: task.StatePending, CreatedAt: now.Add(-time.Hour), RunAt: now.Add(-time.Minute)},
		Agents: []store.AgentInfo{{
			Session: 1, Name: "x", State: store.AgentWorking, Workers: 4, Types: []string{"a"}, SeenAt: now.Add(-time.Second), DonePerMinute: 60,
		}},
	}
	change(w)
	return w
}

func ago(w *store.Situation, d time.Duration) *time.Time {
	at := w.Now.Add(-d)
	return &at
}

func TestWhyWaiting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   ReasonKind
		text   string
		change func(w *store.Situation)
	}{
		{WhyStarting, "nothing is in the way", func(*store.Situation) {}},
		{WhyNotDue, "it is due in 2m, at 2026-11-27T12:02:00.000Z", func(w *store.Situation) { w.Task.RunAt = *ago(w, -2*time.Minute) }},
		{WhyNotDue, "attempt 1 failed (exit code 3); the next one is due in 2m", func(w *store.Situation) {
			w.Task.RunAt, w.Task.State, w.Task.EverStarted = *ago(w, -2*time.Minute), task.StateRetryPending, true
			w.Task.History = []store.AttemptInfo{{Attempt: 1, Outcome: task.Failed, Error: "exit code 3", State: task.StateRetryPending}}
		}},
		{WhyPaused, "type a is paused by al\u2028ice since", func(w *store.Situation) {
			w.Pause = &store.TypePause{Type: "a", At: w.Now, By: "al\u2028ice"}
		}},
		{WhyUndeclared, "no agent is running", func(w *store.Situation) { w.Agents = nil }},
		{WhyUndeclared, "no running agent declares type a", func(w *store.Situation) { w.Agents[0].Types = []string{"b"} }},
		{WhyUndeclared, `no running agent declares type m.nun (did you mean "m.run"?)`, func(w *store.Situation) {
			w.Task.Type, w.Agents[0].Types = "m.nun", []string{"m.run"}
		}},
		{WhyRegion, "no running agent of region sg", func(w *store.Situation) { w.Task.Region = "sg" }},
		{WhyStarting, "", func(w *store.Situation) { w.Task.Region, w.Task.Spilled = "sg", true }},
		{WhyCordoned, "agent x, which would run it, is cordoned by bob", func(w *store.Situation) {
			w.Agents[0].State, w.Agents[0].OrderedBy = store.AgentCordoned, "bob"
		}},
		{WhyCordoned, "none of the 2 agents that would run it takes tasks: x is an observer", func(w *store.Situation) {
			w.Agents[0].State = store.AgentObserver
			w.Agents = append(w.Agents, w.Agents[0])
		}},
		{WhyLock, "task 3 has the lock l, and runs since", func(w *store.Situation) {
			w.Task.Lock, w.Task.Held = "l", task.HoldLock
			w.Lock = &store.LockHolder{Task: 3, State: task.StateRunning, Since: ago(w, time.Minute)}
		}},
		{WhyLock, "what an attempt left behind may still be at work, so the lock l stays held: it is free in 1m", func(w *store.Situation) {
			w.Task.Lock, w.Lock = "l", &store.LockHolder{Until: ago(w, -time.Minute)}
		}},
		{WhyLock, "is being passed on", func(w *store.Situation) { w.Task.Lock, w.Task.Held, w.Lock = "l", task.HoldLock, &store.LockHolder{} }},
		{WhyStarting, "", func(w *store.Situation) { w.Task.Lock, w.Lock = "l", &store.LockHolder{Task: 3} }},
		{WhyBlocked, "task 3 of its sequence s has failed, and blocks it since", func(w *store.Situation) {
			w.Task.Sequence, w.Task.Held = "s", task.HoldSequence
			w.Sequence = &store.SequenceInfo{State: store.SequenceBlocked, Task: 3, Since: w.Now}
		}},
		{WhySequence, "task 3 in its sequence s, which runs since", func(w *store.Situation) {
			w.Task.Sequence, w.Sequence = "s", &store.SequenceInfo{State: store.SequenceRunning, Task: 3, Since: w.Now}
		}},
		{WhyStarting, "", func(w *store.Situation) {
			w.Task.Sequence, w.Sequence = "s", &store.SequenceInfo{State: store.SequenceWaiting, Task: 7}
		}},
		{WhySequence, "its turn in the sequence s has come, and is being passed on", func(w *store.Situation) {
			w.Task.Sequence, w.Task.Held = "s", task.HoldSequence
			w.Sequence = &store.SequenceInfo{State: store.SequenceWaiting, Task: 7}
		}},
		{WhyLimit, "is 3 at once, over all agents, and 4 are in use", func(w *store.Situation) {
			w.Limit = &store.LimitUse{LimitInForce: store.LimitInForce{Name: "a", Most: 3}, Running: 4}
		}},
		{WhyRate, "is 1.5/s, over all agents: the next one may start in 350 ms", func(w *store.Situation) {
			w.Limit = &store.LimitUse{LimitInForce: store.LimitInForce{Name: "a", Rate: 1.5}, Next: 350 * time.Millisecond}
		}},
		{WhyTenant, "tenant acme has 2", func(w *store.Situation) {
			w.Task.Tenant = "acme"
			w.Limit = &store.LimitUse{LimitInForce: store.LimitInForce{Name: "a", Tenant: store.TenantLimit{Most: 2}}, TenantRunning: 2}
		}},
		{WhyTenantRate, "is 6/h: the next task of tenant acme may start in 1m0s", func(w *store.Situation) {
			w.Task.Tenant = "acme"
			w.Limit = &store.LimitUse{LimitInForce: store.LimitInForce{Name: "a", Tenant: store.TenantLimit{Rate: 1.0 / 600}}, TenantNext: time.Minute}
		}},
		{WhyBreaker, "the target of the check is out of reach since 2026-11-27T11:59:29.000Z, 31s: refused; it is tried again in 4.0 s, with one task", func(w *store.Situation) {
			w.Agents[0].Condition = &store.Condition{Breakers: []store.OpenBreaker{{Types: []string{"b", "a"}, Phase: task.Check, OpenFor: 30_000, Error: "refused", RetryIn: 5000}}}
		}},
		{WhyBreaker, "1s: refused; it is tried again at once, with one task", func(w *store.Situation) {
			w.Agents[0].Condition = &store.Condition{Breakers: []store.OpenBreaker{{Types: []string{"a"}, Phase: task.Run, Error: "refused"}}}
		}},
		{WhyBreaker, "the last attempt did not reach its target (refused): the agent tries it again after a pause, with one task", func(w *store.Situation) {
			w.Task.History = []store.AttemptInfo{{Session: 1, Phase: task.Run, Outcome: task.Undelivered, Error: "refused", EndedAt: w.Now}}
		}},
		{WhyStarting, "", func(w *store.Situation) { // the agent has sent a heartbeat since, without an open breaker
			w.Task.History = []store.AttemptInfo{{Session: 1, Phase: task.Run, Outcome: task.Undelivered, EndedAt: *ago(w, time.Minute)}}
		}},
		{WhyStarting, "", func(w *store.Situation) { // another agent may reach it
			w.Task.History = []store.AttemptInfo{{Session: 2, Phase: task.Run, Outcome: task.Undelivered, EndedAt: w.Now}}
		}},
		{WhyNotDue, "it is due now, at 2026-11-27T12:00:00.500Z", func(w *store.Situation) { w.Task.RunAt = *ago(w, -time.Second/2) }},
		{WhyStarting, "", func(w *store.Situation) {
			w.Agents[0].Condition = &store.Condition{Breakers: []store.OpenBreaker{{Types: []string{"a"}, Phase: task.Rollback}}}
		}},
		{WhyStarting, "", func(w *store.Situation) { // another agent reaches it
			w.Agents = append(w.Agents, w.Agents[0])
			w.Agents[0].Condition = &store.Condition{Breakers: []store.OpenBreaker{{Types: []string{"a"}, Phase: task.Run}}}
		}},
		{WhySlots, "the only slot is in use that agents have for type a", func(w *store.Situation) {
			w.Agents[0].Condition = &store.Condition{Full: []store.FullType{{Types: []string{"a"}, Workers: 1}}}
		}},
		{WhySlots, "all 4 slots are in use of the agents that would run it; they run 3 b, 1 c", func(w *store.Situation) {
			w.Agents[0].Running = 4
			w.Running = []store.TypeCount{{Type: "b", N: 3}, {Type: "c", N: 1}}
		}},
		{WhyAhead, "more than 10,000 tasks of its type are due and come first", func(w *store.Situation) { w.Ahead = store.MostAhead + 1 }},
		{WhyBatch, "its batch 4 is being rolled back, because one of its tasks has failed", func(w *store.Situation) {
			w.Batch = &store.StoppedBatch{ID: 4, Verb: store.VerbRollback, ByFailure: true}
		}},
		{WhyAfter, "it waits for task 2 (b, running) to end; it names 4 tasks more", func(w *store.Situation) {
			w.Task.Held = task.HoldAfter
			w.Task.Related = &store.Related{AfterTotal: 5, After: []store.Neighbour{{ID: 1}, {ID: 2, Type: "b", State: task.StateRunning}}}
		}},
		{WhyAfter, "the tasks for which it waits have ended", func(w *store.Situation) {
			w.Task.Held = task.HoldAfter
			w.Task.Related = &store.Related{AfterTotal: 1, After: []store.Neighbour{{ID: 1, State: task.StateSucceeded}}}
		}},
		{WhyFollows, "it follows task 3", func(w *store.Situation) { w.Task.Follows = 3 }},
	} {
		e := Why(situation(c.change), nil)
		require.Equal(t, c.kind, e.Kind, c.text)
		require.Contains(t, e.Text, OneLine(c.text, 1000))
	}
}

// TestWhyAlso: the first reason is the one, and the others are kept.
func TestWhyAlso(t *testing.T) {
	t.Parallel()
	e := Why(situation(func(w *store.Situation) {
		w.Task.RunAt = w.Now.Add(time.Hour)
		w.Pause = &store.TypePause{Type: "a", At: w.Now}
		w.Agents = nil
	}), nil)
	require.Equal(t, WhyNotDue, e.Kind)
	require.Equal(t, time.Date(2026, 11, 27, 13, 0, 0, 0, time.UTC), *e.Starts)
	require.Len(t, e.Also, 2)
	require.Equal(t, WhyPaused, e.Also[0].Kind)
	require.Equal(t, "leasehold resume a", e.Also[0].Remedy)
	require.Equal(t, WhyUndeclared, e.Also[1].Kind)
}

func TestWhyExpected(t *testing.T) {
	t.Parallel()
	e := Why(situation(func(w *store.Situation) { w.Ahead = 29 }), nil)
	require.Equal(t, time.Date(2026, 11, 27, 12, 0, 30, 0, time.UTC), *e.Starts, "60 end in a minute")
	e = Why(situation(func(w *store.Situation) { w.Ahead, w.Agents[0].DonePerMinute = 29, 0 }), nil)
	require.Nil(t, e.Starts)
}

// does has the agent say what the process of the task does.
func does(p store.RunningProcess) func(w *store.Situation) {
	return func(w *store.Situation) {
		p.Task = w.Task.ID
		w.Agents[0].Condition = &store.Condition{Processes: []store.RunningProcess{{Task: p.Task + 1}, p}}
	}
}

// gone has the session that runs the task, which lasts 15 s without a heartbeat, be silent for so long, and another agent run for so long.
func gone(silent, other time.Duration, change func(w *store.Situation)) func(w *store.Situation) {
	return func(w *store.Situation) {
		w.Agents[0].SeenAt = *ago(w, silent)
		w.Holder = &store.SessionHolder{SeenAt: *ago(w, silent), Until: *ago(w, silent-15*time.Second)}
		w.Agents[0].Session = 9
		w.Agents = append(w.Agents, store.AgentInfo{
			Session: 2, Name: "y", State: store.AgentWorking, Workers: 4, StartedAt: *ago(w, other), SeenAt: w.Now,
		})
		if change != nil {
			change(w)
		}
	}
}

func TestWhyRunning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   ReasonKind
		text   string
		change func(w *store.Situation)
	}{
		{WhyRunning, "it runs on agent x for 10s; last heartbeat 4s ago, one is due every 20.0 s; its lease has 18s left", func(*store.Situation) {}},
		{WhyRunning, "it runs on agent x for 10s; its lease expired 2s ago: an agent requeues it in a moment", func(w *store.Situation) {
			w.Policy, w.Task.LeaseEnd = nil, ago(w, 2*time.Second)
		}},
		{WhyRunning, "its lease expired 2s ago: another agent requeues it by 2026-11-27T12:00:10.000Z, in 10.0 s", // whose session has not
			gone(7*time.Second, time.Second, func(w *store.Situation) {
				w.Agents[0].Session, w.Task.LeaseEnd, w.Agents[1].StartedAt = 1, ago(w, 2*time.Second), *ago(w, 7*time.Second)
			})},
		{WhyRunning, "its lease expired 2s ago: no other agent is running; the next one requeues it within 5.0 s of its start", func(w *store.Situation) {
			w.Agents, w.Task.Detached, w.Task.LeaseEnd = nil, true, ago(w, 2*time.Second)
		}},
		{WhyRunning, "it runs on agent x for 10s; the last attempt did not reach its target (refused); last heartbeat", func(w *store.Situation) {
			w.Task.History = []store.AttemptInfo{{Session: 2, Phase: task.Run, Outcome: task.Undelivered, Error: "refused"}}
		}},
		{WhyRunning, "it is being rolled back on agent x", func(w *store.Situation) { w.Task.State = task.StateRollbackRunning }},
		{WhyCancelling, "its cancellation was requested by bob 3s ago", func(w *store.Situation) {
			w.Task.CancelRequested, w.Task.CancelRequestedBy = ago(w, 3*time.Second), "bob"
		}},
		{WhyChecking, "the check is being asked", func(w *store.Situation) {
			w.Agents[0].Condition = &store.Condition{Checks: []task.ID{7}}
		}},
		{WhyRunning, "one is due every 20.0 s; its process waits for a disk or another device, and has used 0.1 s of CPU in the 40s before; its lease",
			does(store.RunningProcess{State: store.ProcessDisk, Processes: 1, CPU: 90, Over: 40_000})},
		{WhyRunning, "; its process computes, and has used 39.9 s of CPU in the 40s before",
			does(store.RunningProcess{State: store.ProcessRunning, Processes: 1, CPU: 39_900, Over: 40_000})},
		{WhyRunning, "; its process computes, and has used", // in threads whose state does not show
			does(store.RunningProcess{State: store.ProcessSleeping, Processes: 1, CPU: 39_900, Over: 40_000})},
		{WhyRunning, "; its process computes now and then, and has used 0.2 s",
			does(store.RunningProcess{State: store.ProcessRunning, Processes: 1, CPU: 200, Over: 40_000})},
		{WhyRunning, "; its group of 3 processes sleeps, waiting for something, and has used 0.0 s",
			does(store.RunningProcess{State: store.ProcessSleeping, Processes: 3, Over: 40_000})},
		{WhyRunning, "; its process was stopped by a signal or a debugger", does(store.RunningProcess{State: store.ProcessStopped, Processes: 1})},
		{WhyRunning, "; its process has just ended", does(store.RunningProcess{State: store.ProcessEnded, Processes: 1})},
		{WhyRunning, "its lease has 18s left; its agent has sent no heartbeat for 7s: if it is gone, another agent requeues it by 2026-11-27T12:00:10.000Z, in 10.0 s",
			gone(7*time.Second, time.Hour, func(w *store.Situation) { w.Agents[0].Session = 1 })},
		{WhyAgentGone, "agent x, which ran it, is gone: no other agent is running; the next one requeues it within 5.0 s of its start",
			func(w *store.Situation) { w.Agents = nil }},
		{WhyAgentGone, "agent x, which ran it, is gone (its last heartbeat came 20s ago): another agent requeues it in a moment", gone(20*time.Second, time.Hour, nil)},
		{WhyAgentGone, "is gone (its last heartbeat came 16s ago): another agent requeues it by 2026-11-27T12:00:01.000Z, in 1.0 s", gone(16*time.Second, time.Hour, nil)},
		{WhyAgentGone, "another agent requeues it by 2026-11-27T12:00:13.000Z, in 13.0 s", gone(20*time.Second, 4*time.Second, nil)}, // that has just started
		{WhyAgentGone, "no other agent is running; the next one requeues it within 17.0 s of its start",
			gone(20*time.Second, time.Hour, func(w *store.Situation) { w.Agents[1].Workers = 0 })},
		{WhyAgentGone, "no other agent is running; the next one requeues it within 17.0 s of its start", // as one that drains sweeps no more
			gone(20*time.Second, time.Hour, func(w *store.Situation) { w.Agents[1].State = store.AgentDraining })},
		{WhyAgentGone, "is gone (it exited at 2026-11-27T11:59:40.000Z): another agent requeues it in a moment", gone(20*time.Second, time.Hour,
			func(w *store.Situation) { w.Holder.Until = w.Holder.SeenAt })},
		{WhyAgentGone, "another agent requeues it by 2026-11-27T12:00:03.000Z, in 3.0 s", gone(4*time.Second, time.Hour, // its lease ends before its session
			func(w *store.Situation) { w.Task.LeaseEnd = ago(w, -time.Second) })},
		{WhyRunning, "it runs on agent x", func(w *store.Situation) { w.Agents, w.Task.Detached = nil, true }},
	} {
		e := Why(situation(func(w *store.Situation) {
			w.Task.State, w.Task.Session, w.Task.Agent = task.StateRunning, 1, "x"
			w.Task.ClaimedAt, w.Task.LeaseEnd = ago(w, 10*time.Second), ago(w, -18*time.Second)
			w.Policy = &task.Policy{Timeout: time.Minute, Heartbeat: 20 * time.Second, Stop: 2 * time.Second}
			c.change(w)
		}), nil)
		require.Equal(t, c.kind, e.Kind, c.text)
		require.Contains(t, e.Text, c.text)
	}
}

func TestWhyIsMasked(t *testing.T) {
	t.Parallel()
	w := situation(func(w *store.Situation) {
		w.Task.State, w.Task.Session, w.Task.Progress = task.StateRunning, 1, json.RawMessage(`{"done": 4111, "total": 9000}`)
	})
	require.Contains(t, Why(w, nil).Text, "45.6%")
	require.NotContains(t, Why(w, Redactions{"a": NewMask("done")}).Text, "45.6%")
}

// Rooms keep ops from lease, so what why says of sweeps has a copy of its bound.
func TestWhyKnowsWhenAgentsSweep(t *testing.T) {
	t.Parallel()
	require.Equal(t, lease.SettleIn, settleIn)
}
