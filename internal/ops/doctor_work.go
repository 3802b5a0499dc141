package ops

import (
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
)

// manyStalls is how many stalled attempts of a type within an hour are a problem; fewer are a notice.
const manyStalls = 5

func workChecks() []check {
	return []check{
		{"type_paused", store.PartPauses, (*examination).pausedTypes},
		{"orphans", store.PartOrphans, (*examination).orphans},
		{"region_orphans", store.PartRegions, (*examination).regionOrphans},
		{"schedule_behind", store.PartSchedules, (*examination).schedulesBehind},
		{"schedule_parked", store.PartSchedules, (*examination).schedulesParked},
		{"schedule_invalid", store.PartSchedules, (*examination).schedulesInvalid},
		{"schedule_paused", store.PartSchedules, (*examination).schedulesPaused},
		{"sequence_blocked", store.PartSequences, (*examination).blockedSequences},
		{"rollback_failed", store.PartRollbacks, (*examination).failedRollbacks},
		{"stalls", store.PartStalls, (*examination).stalledTypes},
	}
}

func (x *examination) pausedTypes() (found []Finding) {
	for i := range x.Pauses {
		p := &x.Pauses[i]
		f := Finding{Severity: Notice, About: OneLine(p.Type, mostName), Since: &p.At, Remedy: "leasehold resume " + ShellQuote(p.Type)}
		f.What = fmt.Sprintf("type %s is paused%s %s", f.About, byWhom(p.By), clock(x.Now, p.At))
		if p.Reason != "" {
			f.What += ": " + OneLine(p.Reason, 200)
		}
		found = append(found, f)
	}
	return found
}

func (x *examination) orphans() (found []Finding) {
	for _, o := range x.Orphans {
		typ := OneLine(o.Type, mostName)
		what := Tasks(int64(o.Waiting))
		if o.Waiting > store.DiagnosisWaiting {
			what = "more than " + Tasks(store.DiagnosisWaiting)
		}
		found = append(found, Finding{
			Severity: Problem, About: typ,
			What:   fmt.Sprintf("type %s has %s waiting, and no running agent declares it", typ, what) + DidYouMean(o.Type, x.Agents),
			Remedy: fmt.Sprintf("declare it, or leasehold orphans move %s NEW, or leasehold orphans cancel %[1]s", ShellQuote(o.Type)),
		})
	}
	return found
}

func (x *examination) regionOrphans() (found []Finding) {
	for _, o := range x.Regions {
		region, typ := OneLine(o.Region, mostName), OneLine(o.Type, mostName)
		what := Tasks(o.Due)
		if o.More {
			what = "at least " + what
		}
		found = append(found, Finding{
			Severity: Problem, About: region,
			What:   fmt.Sprintf("type %s has %s due in region %s, and no running agent of that region declares it", typ, what, region),
			Remedy: "start an agent of that region, or set spill_after for the type",
		})
	}
	return found
}

// schedules are those for which f returns something.
func (x *examination) schedules(f func(*store.IdleSchedule, string) *Finding) (found []Finding) {
	for i := range x.Schedules {
		name := OneLine(x.Schedules[i].Name, mostName)
		if one := f(&x.Schedules[i], name); one != nil {
			one.About = name
			found = append(found, *one)
		}
	}
	return found
}

func (x *examination) schedulesBehind() []Finding {
	return x.schedules(func(s *store.IdleSchedule, name string) *Finding {
		if s.Invalid != "" || s.ParkedAt != nil || s.PausedAt != nil || s.NextAt == nil {
			return nil
		}
		return &Finding{
			Severity: Problem, Since: s.NextAt, What: fmt.Sprintf("schedule %s is behind: it was to be looked at %s ago", name, Age(x.Now.Sub(*s.NextAt))),
			Remedy: "start an agent, or look at the logs of those that run; leasehold schedule show " + ShellQuote(s.Name),
		}
	})
}

func (x *examination) schedulesParked() []Finding {
	return x.schedules(func(s *store.IdleSchedule, name string) *Finding {
		if s.ParkedAt == nil {
			return nil
		}
		return &Finding{
			Severity: Problem, Since: s.ParkedAt, What: fmt.Sprintf("schedule %s is parked %s: no running agent declares it", name, clock(x.Now, *s.ParkedAt)),
			Remedy: "declare it again, or leasehold schedule rm " + ShellQuote(s.Name),
		}
	})
}

func (x *examination) schedulesInvalid() []Finding {
	return x.schedules(func(s *store.IdleSchedule, name string) *Finding {
		if s.Invalid == "" {
			return nil
		}
		return &Finding{
			Severity: Problem, What: fmt.Sprintf("agents cannot use schedule %s: %s", name, OneLine(s.Invalid, 200)),
			Remedy: "correct its row, or leasehold schedule rm " + ShellQuote(s.Name),
		}
	})
}

func (x *examination) schedulesPaused() []Finding {
	return x.schedules(func(s *store.IdleSchedule, name string) *Finding {
		if s.PausedAt == nil {
			return nil
		}
		return &Finding{
			Severity: Notice, Since: s.PausedAt, What: fmt.Sprintf("schedule %s is paused%s %s", name, byWhom(s.PausedBy), clock(x.Now, *s.PausedAt)),
			Remedy: "leasehold schedule resume " + ShellQuote(s.Name),
		}
	})
}

func (x *examination) blockedSequences() (found []Finding) {
	for i := range x.Sequences {
		s := &x.Sequences[i]
		found = append(found, Finding{
			Severity: Problem, About: OneLine(s.Type, mostName) + " " + OneLine(s.Sequence, mostName), Since: s.Since,
			What: fmt.Sprintf("sequence %s of type %s is blocked%s: task %d has failed", OneLine(s.Sequence, mostName), OneLine(s.Type, mostName),
				since(x.Now, s.Since), s.Task),
			Remedy: fmt.Sprintf("leasehold sequence retry %s %s, or skip or cancel", ShellQuote(s.Type), ShellQuote(s.Sequence)),
		})
	}
	return found
}

func (x *examination) failedRollbacks() (found []Finding) {
	for i := range x.Rollbacks {
		f := &x.Rollbacks[i]
		found = append(found, Finding{
			Severity: Problem, About: fmt.Sprintf("task %d", f.Task), Since: &f.At,
			What: fmt.Sprintf("the rollback of task %d, of type %s, failed %s ago: its effects need manual intervention", f.Task,
				OneLine(f.Type, mostName), Age(x.Now.Sub(f.At))),
			Remedy: fmt.Sprintf("leasehold task show %d, and then leasehold task rollback %[1]d", f.Task),
		})
	}
	return found
}

func (x *examination) stalledTypes() (found []Finding) {
	for i := range x.Stalls {
		s := &x.Stalls[i]
		f := Finding{
			Severity: Problem, About: OneLine(s.Type, mostName), Since: &s.Last,
			Remedy: "have the handler ping more often, or raise heartbeat; if a webhook's server handles fewer requests at once than " +
				"workers and limit allow, lower these; leasehold task list --type " + ShellQuote(s.Type),
		}
		if s.Stalls < manyStalls {
			f.Severity = Notice
		}
		attempts := fmt.Sprintf("%d attempts", s.Stalls)
		if s.Stalls == 1 {
			attempts = "one attempt"
		}
		f.What = fmt.Sprintf("%s of type %s stalled within the last hour, the last one %s ago", attempts, f.About, Age(x.Now.Sub(s.Last)))
		found = append(found, f)
	}
	return found
}
