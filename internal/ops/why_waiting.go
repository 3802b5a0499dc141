package ops

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// whyAfter is for a task that waits for others to end.
func whyAfter(w *store.Situation) *Reason {
	t := w.Task
	if t.Held != task.HoldAfter || t.Related == nil {
		return nil
	}
	for _, n := range t.Related.After {
		if n.State == "" || n.State.Finished() {
			continue
		}
		text := fmt.Sprintf("it waits for task %d (%s, %s) to end", n.ID, OneLine(n.Type, mostName), n.State)
		if more := t.Related.AfterTotal - 1; more > 0 {
			text += fmt.Sprintf("; it names %s more", Tasks(int64(more)))
		}
		return &Reason{Kind: WhyAfter, Other: n.ID, Text: text, Remedy: fmt.Sprintf("see `leasehold task why %d`", n.ID)}
	}
	if t.Related.AfterTotal > len(t.Related.After) {
		return &Reason{Kind: WhyAfter, Text: fmt.Sprintf("it waits for some of %s to end; the first %d have ended",
			Tasks(int64(t.Related.AfterTotal)), len(t.Related.After))}
	}
	return &Reason{Kind: WhyAfter, Text: "the tasks for which it waits have ended: agents free it in a moment, or cancel it if one has failed"}
}

// mostName bounds a name in a sentence, in characters.
const mostName = 80

// whyBatch is for a task whose batch starts nothing any more.
func whyBatch(w *store.Situation) *Reason {
	b := w.Batch
	if b == nil || w.Task.State.Phase() == task.Rollback {
		return nil
	}
	doing := map[string]string{store.VerbCancel: "cancelled", store.VerbRollback: "rolled back"}[b.Verb]
	if doing == "" {
		doing = "stopped"
	}
	reason := " as requested" + byWhom(b.By)
	if b.ByFailure {
		reason = ", because one of its tasks has failed"
	}
	return &Reason{Kind: WhyBatch, By: b.By, Text: fmt.Sprintf("its batch %d is being %s%s: the task is cancelled in a moment", b.ID, doing, reason)}
}

// whyNotDue is for a task that is due later.
func whyNotDue(w *store.Situation) *Reason {
	t := w.Task
	if !t.RunAt.After(w.Now) {
		return nil
	}
	due := t.RunAt
	r := &Reason{Kind: WhyNotDue, Starts: &due, Text: "it is due " + clock(w.Now, due)}
	if n := len(t.History); n > 0 && (t.EverStarted || t.Deferrals > 0 || t.State != task.StatePending) {
		last := t.History[n-1]
		if last.State == t.State {
			r.Text = fmt.Sprintf("attempt %d %s%s; the next one is due %s", last.Attempt, last.Outcome, because(last.Error), clock(w.Now, due))
		}
	}
	return r
}

// whyPaused is for a task whose type is paused.
func whyPaused(w *store.Situation) *Reason {
	p := w.Pause
	if p == nil {
		return nil
	}
	at := p.At
	text := fmt.Sprintf("type %s is paused%s %s", OneLine(p.Type, mostName), byWhom(p.By), clock(w.Now, at))
	if p.Reason != "" {
		text += ": " + OneLine(p.Reason, 200)
	}
	return &Reason{Kind: WhyPaused, Since: &at, By: p.By, Text: text, Remedy: "leasehold resume " + ShellQuote(p.Type)}
}

// whyLock is for a task that waits for its lock. One that was not held back yet is, by the claim that finds it, while another has the lock.
func whyLock(w *store.Situation) *Reason {
	l := w.Lock
	if l == nil || w.Task.Held != task.HoldLock && !l.State.Running() && l.Until == nil {
		return nil
	}
	name := OneLine(w.Task.Lock, mostName)
	r := &Reason{Kind: WhyLock, Other: l.Task, Since: l.Since, Ahead: max(w.Ahead-1, 0)}
	switch {
	case l.State.Running() && l.Since != nil:
		r.Text = fmt.Sprintf("task %d has the lock %s, and runs %s", l.Task, name, clock(w.Now, *l.Since))
	case l.Until != nil:
		r.Text = fmt.Sprintf("what an attempt left behind may still be at work, so the lock %s stays held: it is free %s", name, clock(w.Now, *l.Until))
		r.Other, r.Starts = 0, l.Until
	case l.Task != 0 && l.State != "":
		r.Text = fmt.Sprintf("task %d (%s) has the lock %s", l.Task, l.State, name)
	default:
		r.Other = 0
		r.Text = fmt.Sprintf("the lock %s is being passed on: agents do that in a moment", name)
	}
	if r.Ahead > 0 {
		r.Text += fmt.Sprintf("; %s more wait for it", count(r.Ahead))
	}
	return r
}

// whySequence is for a task whose turn in its sequence has not come, or has not been passed on to it yet.
func whySequence(w *store.Situation) *Reason {
	t, s := w.Task, w.Sequence
	name := OneLine(t.Sequence, mostName)
	switch {
	case s == nil || s.Task == t.ID && t.Held != task.HoldSequence:
		return nil
	case s.Task == t.ID:
		return &Reason{Kind: WhySequence, Text: fmt.Sprintf(
			"its turn in the sequence %s has come, and is being passed on: agents do that in a moment", name)}
	}
	since := s.Since
	r := &Reason{Kind: WhySequence, Other: s.Task, Since: &since, Ahead: w.Ahead}
	switch s.State {
	case store.SequenceBlocked:
		r.Kind = WhyBlocked
		args := ShellQuote(t.Type) + " " + ShellQuote(t.Sequence)
		r.Text = fmt.Sprintf("task %d of its sequence %s has failed, and blocks it %s", s.Task, name, clock(w.Now, since))
		r.Remedy = fmt.Sprintf("leasehold sequence retry %s, or skip, or cancel", args)
	case store.SequenceRunning:
		r.Text = fmt.Sprintf("it is the turn of task %d in its sequence %s, which runs %s", s.Task, name, clock(w.Now, since))
	default:
		r.Text = fmt.Sprintf("it is the turn of task %d in its sequence %s, which has yet to start", s.Task, name)
		r.Remedy = fmt.Sprintf("see `leasehold task why %d`", s.Task)
	}
	if r.Ahead > 1 {
		r.Text += fmt.Sprintf("; %s of it come first", count(r.Ahead))
	}
	return r
}

// whyLimit is for a task of whose type as many attempts run as may.
func whyLimit(w *store.Situation) *Reason {
	l := w.Limit
	if l == nil || l.Most == 0 || l.Running < l.Most {
		return nil
	}
	return &Reason{Kind: WhyLimit, Ahead: w.Ahead, Text: fmt.Sprintf(
		"the limit of type %s is %d at once, over all agents, and %d are in use (what may still be at work keeps its place until its lease ends)",
		OneLine(l.Name, mostName), l.Most, l.Running)}
}

// whyRate is for a task of whose type as many have started as may.
func whyRate(w *store.Situation) *Reason {
	l := w.Limit
	if l == nil || l.Rate == 0 || l.Next == 0 {
		return nil
	}
	starts := w.Now.Add(l.Next + ahead(w.Ahead, l.Rate))
	return &Reason{Kind: WhyRate, Ahead: w.Ahead, Starts: &starts, Text: fmt.Sprintf(
		"the rate of type %s is %s, over all agents: the next one may start %s", OneLine(l.Name, mostName), rate(l.Rate), in(l.Next))}
}

// whyTenant is for a task whose tenant has as many attempts as it may have.
func whyTenant(w *store.Situation) *Reason {
	l, tenant := w.Limit, OneLine(w.Task.Tenant, mostName)
	switch {
	case l == nil || w.Task.Tenant == "":
		return nil
	case l.Tenant.Most > 0 && l.TenantRunning >= l.Tenant.Most:
		return &Reason{Kind: WhyTenant, Ahead: w.Ahead, Text: fmt.Sprintf("the limit of a tenant of type %s is %d at once, and tenant %s has %d",
			OneLine(l.Name, mostName), l.Tenant.Most, tenant, l.TenantRunning)}
	case l.Tenant.Rate > 0 && l.TenantNext > 0:
		starts := w.Now.Add(l.TenantNext + ahead(w.Ahead, l.Tenant.Rate))
		return &Reason{Kind: WhyTenantRate, Ahead: w.Ahead, Starts: &starts, Text: fmt.Sprintf(
			"the rate of a tenant of type %s is %s: the next task of tenant %s may start %s",
			OneLine(l.Name, mostName), rate(l.Tenant.Rate), tenant, in(l.TenantNext))}
	}
	return nil
}

// ahead is how long so many tasks take to start, at a rate in tasks per second.
func ahead(n int, perSecond float64) time.Duration {
	return time.Duration(float64(n) / perSecond * float64(time.Second))
}

// rate writes tasks per second, minute or hour, as a configuration does.
func rate(perSecond float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"s", 1}, {"m", 60}, {"h", 3600}} {
		if n := perSecond * unit.seconds; n >= 1 || unit.name == "h" {
			return fmt.Sprintf("%.4g/%s", n, unit.name)
		}
	}
	return ""
}
