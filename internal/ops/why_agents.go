package ops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// candidates are the present agents, as far as they can take a task.
type candidates struct {
	declare []store.AgentInfo // its type
	region  []store.AgentInfo // of these, those of its region
	working []store.AgentInfo // of these, those that claim
}

func candidatesOf(w *store.Situation) (k candidates) {
	t := w.Task
	for _, a := range w.Agents {
		if !slices.Contains(a.Types, t.Type) {
			continue
		}
		k.declare = append(k.declare, a)
		if t.Region != "" && !t.Spilled && a.Region != t.Region {
			continue
		}
		k.region = append(k.region, a)
		if a.State == store.AgentWorking {
			k.working = append(k.working, a)
		}
	}
	return k
}

// missing is for a task that no present agent takes.
func (k candidates) missing(w *store.Situation) *Reason {
	t := w.Task
	typ := OneLine(t.Type, mostName)
	switch {
	case len(w.Agents) == 0:
		return &Reason{Kind: WhyUndeclared, Text: "no agent is running", Remedy: "start one with `leasehold run`"}
	case len(k.declare) == 0:
		return &Reason{
			Kind: WhyUndeclared, Text: fmt.Sprintf("no running agent declares type %s", typ) + DidYouMean(t.Type, w.Agents),
			Remedy: "declare it, or see `leasehold orphans`",
		}
	case len(k.region) == 0:
		return &Reason{
			Kind: WhyRegion, Text: fmt.Sprintf("no running agent of region %s declares type %s", OneLine(t.Region, mostName), typ),
			Remedy: "start an agent of that region, or set spill_after for the type",
		}
	case len(k.working) == 0:
		a := k.region[0]
		r := &Reason{Kind: WhyCordoned, Agent: a.Name, By: a.OrderedBy}
		r.Text = fmt.Sprintf("agent %s, which would run it, is %s", OneLine(a.Name, mostName), standingOf(&a))
		if len(k.region) > 1 {
			r.Text = fmt.Sprintf("none of the %d agents that would run it takes tasks: %s is %s", len(k.region), OneLine(a.Name, mostName), standingOf(&a))
		}
		if a.State == store.AgentCordoned {
			r.Remedy = "leasehold agents uncordon " + ShellQuote(a.Name)
		}
		return r
	}
	return nil
}

// standingOf writes what an agent does that claims nothing.
func standingOf(a *store.AgentInfo) string {
	switch a.State {
	case store.AgentObserver:
		return "an observer (it has no workers)"
	case store.AgentCordoned, store.AgentDraining:
		return string(a.State) + byWhom(a.OrderedBy)
	}
	return string(a.State)
}

// unreachable is for a task whose target is out of reach of all agents that would run it.
func (k candidates) unreachable(w *store.Situation) *Reason {
	var first *Reason
	for i := range k.working {
		r := openBreaker(&k.working[i], w)
		if r == nil {
			return nil
		}
		if first == nil {
			first = r
		}
	}
	return first
}

// openBreaker is for a task whose target is out of reach of an agent.
func openBreaker(a *store.AgentInfo, w *store.Situation) *Reason {
	if a.Condition == nil {
		return undelivered(a, w)
	}
	phase := w.Task.State.Phase()
	for _, b := range a.Condition.Breakers {
		if !slices.Contains(b.Types, w.Task.Type) || b.Phase != phase && (b.Phase != task.Check || phase != task.Run) {
			continue
		}
		what := map[task.Phase]string{task.Run: "the target", task.Rollback: "the target of rollbacks", task.Check: "the target of the check"}[b.Phase]
		since := b.Since(a.SeenAt)
		r := &Reason{
			Kind: WhyBreaker, Since: &since, Agent: a.Name,
			Remedy: backRemedy,
		}
		r.Text = fmt.Sprintf("%s is out of reach %s", what, clock(w.Now, since))
		if b.Error != "" {
			r.Text += ": " + OneLine(b.Error, 200)
		}
		r.Text += "; it is tried again " + in(a.SeenAt.Add(time.Duration(b.RetryIn)*time.Millisecond).Sub(w.Now)) + ", with one task"
		return r
	}
	return undelivered(a, w)
}

// undelivered is for a task whose last attempt has not reached its target, on an agent whose last heartbeat came before: what that said of
// breakers does not count.
func undelivered(a *store.AgentInfo, w *store.Situation) *Reason {
	last := missed(w.Task)
	if last == nil || last.Session != a.Session || a.SeenAt.After(last.EndedAt) {
		return nil
	}
	return &Reason{
		Kind: WhyBreaker, Since: &last.EndedAt, Agent: a.Name,
		Text:   fmt.Sprintf("the last attempt did not reach its target%s: the agent tries it again after a pause, with one task", because(last.Error)),
		Remedy: backRemedy,
	}
}

// missed returns the last attempt of the phase that a task is in, if it did not reach its target; else nil.
func missed(t *store.TaskInfo) *store.AttemptInfo {
	n := len(t.History)
	if n == 0 || t.History[n-1].Outcome != task.Undelivered || t.History[n-1].Phase != t.State.Phase() {
		return nil
	}
	return &t.History[n-1]
}

// backRemedy is what an operator can do about a target that is out of reach.
const backRemedy = "bring the target back: agents try one task now and then, and go on when it is reached"

// busy is for a task for which no agent has a free slot.
func (k candidates) busy(w *store.Situation) *Reason {
	if len(k.working) == 0 {
		return nil
	}
	slots, ofType := 0, 0
	for i := range k.working {
		a := &k.working[i]
		full := fullType(a, w.Task.Type)
		switch {
		case full > 0:
			ofType += full
		case a.Running >= a.Workers:
			slots += a.Workers
		default:
			return nil
		}
	}
	r := &Reason{Kind: WhySlots, Ahead: w.Ahead, Starts: k.expected(w)}
	if slots == 0 {
		r.Text = fmt.Sprintf("%s in use that agents have for type %s (workers of the task block)", allSlots(ofType), OneLine(w.Task.Type, mostName))
	} else {
		r.Text = fmt.Sprintf("%s in use of the agents that would run it; they run %s", allSlots(slots+ofType), mix(w.Running))
		r.Remedy = "raise workers, or start another agent"
	}
	return r
}

// allSlots begins a sentence on slots that are in use.
func allSlots(n int) string {
	if n == 1 {
		return "the only slot is"
	}
	return fmt.Sprintf("all %s slots are", Thousands(int64(n)))
}

// fullType returns how many slots of its own a type has on an agent, if all of them are in use; else 0.
func fullType(a *store.AgentInfo, typ string) int {
	if a.Condition == nil {
		return 0
	}
	for _, f := range a.Condition.Full {
		if slices.Contains(f.Types, typ) {
			return f.Workers
		}
	}
	return 0
}

// mix writes which types run: "12 invoice.send, 3 video.resize".
func mix(running []store.TypeCount) string {
	const most = 3
	var parts []string
	for _, c := range running[:min(len(running), most)] {
		parts = append(parts, fmt.Sprintf("%d %s", c.N, OneLine(c.Type, mostName)))
	}
	if len(running) > most {
		parts = append(parts, "and others")
	}
	return strings.Join(parts, ", ")
}

// behind is for a task that others precede.
func (k candidates) behind(w *store.Situation) *Reason {
	if w.Ahead == 0 || w.Task.Held != "" || w.Task.RunAt.After(w.Now) {
		return nil
	}
	return &Reason{Kind: WhyAhead, Ahead: w.Ahead, Starts: k.expected(w), Text: count(w.Ahead) + " of its type are due and come first"}
}

// expected estimates when a task starts before which others are, from how many attempts the agents have ended in the last minute; nil: there is
// nothing to go by. All types share the slots, so this is no more than a guess.
func (k candidates) expected(w *store.Situation) *time.Time {
	var perMinute int64
	for i := range k.working {
		perMinute += k.working[i].DonePerMinute
	}
	if perMinute == 0 || w.Ahead > store.MostAhead {
		return nil
	}
	at := w.Now.Add(time.Duration(float64(w.Ahead+1) / float64(perMinute) * float64(time.Minute))).Truncate(time.Second)
	return &at
}

// whyRunning says what a task does that runs.
func whyRunning(w *store.Situation, t *Task) Reason {
	r := Reason{Kind: WhyRunning, Since: t.ClaimedAt, Agent: t.Agent}
	i := slices.IndexFunc(w.Agents, func(a store.AgentInfo) bool { return a.Session == t.Session })
	agent := agentOf(t.Agent, t.Session, mostName)
	if i < 0 && !t.Detached {
		r.Kind = WhyAgentGone
		r.Text = fmt.Sprintf("agent %s, which ran it, is gone%s: %s", agent, silentFor(w), requeued(w))
		return r
	}
	doing := "it runs"
	if t.State.Phase() == task.Rollback {
		doing = "it is being rolled back"
	}
	if i >= 0 && w.Agents[i].Condition != nil && slices.Contains(w.Agents[i].Condition.Checks, t.ID) {
		r.Kind = WhyChecking
		doing = "the check is being asked whether it is done already"
	}
	r.Text = fmt.Sprintf("%s on agent %s%s%s", doing, agent, since(w.Now, t.ClaimedAt), progress(t)+because(t.Message))
	if t.CancelRequested != nil {
		r.Kind, r.By = WhyCancelling, t.CancelRequestedBy
		r.Text += fmt.Sprintf("; its cancellation was requested%s %s ago", byWhom(t.CancelRequestedBy), Age(w.Now.Sub(*t.CancelRequested)))
	}
	if last := missed(w.Task); last != nil {
		r.Text += "; the last attempt did not reach its target" + because(last.Error)
	}
	r.Text += lastPing(w)
	if i >= 0 {
		if r.Process = processOf(&w.Agents[i], t.ID); r.Process != nil {
			r.Text += "; " + doingNow(r.Process)
		}
	}
	r.Text += leaseLeft(w)
	if i >= 0 && !t.Detached && leaseHeld(w) && w.Now.Sub(w.Agents[i].SeenAt) > renewed {
		r.Text += fmt.Sprintf("; its agent has sent no heartbeat for %s: if it is gone, %s", Age(w.Now.Sub(w.Agents[i].SeenAt)), requeued(w))
	}
	return r
}

// silentFor writes since when the session that ran a task has sent no heartbeat, or that it was closed; "" where that is not known.
func silentFor(w *store.Situation) string {
	switch h := w.Holder; {
	case h == nil:
		return ""
	case !h.Until.After(h.SeenAt):
		return " (it exited at " + Time(h.SeenAt) + ")"
	default:
		return fmt.Sprintf(" (its last heartbeat came %s ago)", Age(w.Now.Sub(h.SeenAt)))
	}
}

// How long it takes at most until an agent reaps the row of an agent that is gone: from its start until its first sweep (lease.SettleIn),
// and until the next sweep that finds it.
const (
	settleIn  = 3 * time.Second
	nextSweep = 2 * time.Second
)

// requeued writes when another agent requeues a task whose agent is gone. It does once the lease or the session of that agent has expired, and it has
// itself run for as long as that session lasts without a heartbeat: so long it has to see the session silent, as the clock may have jumped.
func requeued(w *store.Situation) string {
	var end time.Time // of the lease or the session
	var lasts time.Duration
	if h := w.Holder; h != nil {
		end, lasts = h.Until, max(h.Until.Sub(h.SeenAt), 0)
	}
	if lease := w.Task.LeaseEnd; lease != nil && lease.Before(end) {
		end = *lease
	}
	watches := max(lasts, settleIn)
	var since *time.Time // when the first of the agents that can requeue it has started
	for i := range w.Agents {
		a := &w.Agents[i]
		sweeps := a.Session != w.Task.Session && a.Workers > 0 && a.State != store.AgentDraining && w.Now.Sub(a.SeenAt) <= renewed
		if sweeps && (since == nil || a.StartedAt.Before(*since)) {
			since = &a.StartedAt
		}
	}
	if since == nil {
		return fmt.Sprintf("no other agent is running; the next one requeues it within %s of its start", Duration(watches+nextSweep))
	}
	if by := since.Add(watches); by.After(end) {
		end = by
	}
	end = end.Add(nextSweep)
	if !end.After(w.Now) {
		return "another agent requeues it in a moment"
	}
	return fmt.Sprintf("another agent requeues it by %s, in %s", Time(end), Duration(end.Sub(w.Now)))
}

// leaseHeld reports whether the lease of a task has not expired.
func leaseHeld(w *store.Situation) bool {
	return w.Task.LeaseEnd != nil && w.Task.LeaseEnd.After(w.Now)
}

// processOf returns what an agent has last said of a task's process.
func processOf(a *store.AgentInfo, id task.ID) *store.RunningProcess {
	if a.Condition == nil {
		return nil
	}
	for i, p := range a.Condition.Processes {
		if p.Task == id {
			return &a.Condition.Processes[i]
		}
	}
	return nil
}

// doingNow writes what a process does. One that sleeps whenever it is looked at may compute in between, and the threads of a process show in its
// CPU time alone.
func doingNow(p *store.RunningProcess) string {
	cpu, over := time.Duration(p.CPU)*time.Millisecond, time.Duration(p.Over)*time.Millisecond
	does := "its process sleeps, waiting for something"
	switch {
	case p.State == store.ProcessDisk:
		does = "its process waits for a disk or another device"
	case p.State == store.ProcessStopped:
		does = "its process was stopped by a signal or a debugger"
	case p.State == store.ProcessEnded:
		does = "its process has just ended"
	case cpu > over/2:
		does = "its process computes"
	case p.State == store.ProcessRunning:
		does = "its process computes now and then"
	}
	if p.Processes > 1 {
		does = strings.Replace(does, "process", fmt.Sprintf("group of %d processes", p.Processes), 1)
	}
	return fmt.Sprintf("%s, and has used %.1f s of CPU in the %s before", does, cpu.Seconds(), Age(over))
}

// since writes for how long something has lasted; "" where it is not known.
func since(now time.Time, from *time.Time) string {
	if from == nil {
		return ""
	}
	return " for " + Age(now.Sub(*from))
}

// lastPing writes when the last ping came that counted, or the attempt began; "" where no pings are due. The lease ends a heartbeat and the time
// for stopping after that.
func lastPing(w *store.Situation) string {
	t := w.Task
	if w.Policy == nil || t.LeaseEnd == nil {
		return ""
	}
	_, heartbeat, stop := w.Policy.Lengths(t.State.Phase())
	if heartbeat == 0 {
		return ""
	}
	return fmt.Sprintf("; last heartbeat %s ago, one is due every %s", Age(max(w.Now.Sub(t.LeaseEnd.Add(-heartbeat-stop)), 0)), Duration(heartbeat))
}

// leaseLeft writes how much is left of the lease of an agent that is present, or of a task that goes on without one.
func leaseLeft(w *store.Situation) string {
	end := w.Task.LeaseEnd
	switch {
	case end == nil:
		return ""
	case end.After(w.Now):
		return fmt.Sprintf("; its lease has %s left", Age(end.Sub(w.Now)))
	}
	by := "an agent requeues it in a moment"
	if !slices.ContainsFunc(w.Agents, func(a store.AgentInfo) bool { return a.Session == w.Task.Session && w.Now.Sub(a.SeenAt) <= renewed }) {
		by = requeued(w)
	}
	return fmt.Sprintf("; its lease expired %s ago: %s", Age(w.Now.Sub(*end)), by)
}
