package ops

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// rollout is for how long agents may differ before that is a problem: a rolling deployment takes its time.
const rollout = 10 * time.Minute

func agentChecks() []check {
	return []check{
		{"no_agents", store.PartAgents, (*examination).noAgents},
		{"agent_absent", store.PartAgents, (*examination).absentAgents},
		{"agent_twice", store.PartAgents, (*examination).agentsTwice},
		{"agent_cordoned", store.PartAgents, (*examination).cordonedAgents},
		{"agent_stuck", store.PartAgents, (*examination).stuckAgents},
		{"clock_jump", store.PartAgents, (*examination).clockJumps},
		{"breaker_open", store.PartAgents, (*examination).openBreakers},
		{"version_differs", store.PartAgents, (*examination).versions},
		{"config_differs", store.PartAgents, (*examination).configurations},
		{"limit_differs", store.PartDeclarations, (*examination).limits},
		{"task_differs", store.PartDeclarations, (*examination).tasksOfNames},
		{"declaration_differs", store.PartDeclarations, (*examination).declarations},
	}
}

// present lists the sessions that are present.
func (x *examination) present() []store.AgentInfo {
	return slices.DeleteFunc(slices.Clone(x.Agents), func(a store.AgentInfo) bool { return a.State == store.AgentAbsent })
}

func (x *examination) noAgents() []Finding {
	present := x.present()
	for i := range present {
		if present[i].State == store.AgentWorking {
			return nil
		}
	}
	if x.Fresh {
		return one(Notice, "no agent has run on this store yet: no task starts", "start one with `leasehold run`")
	}
	if len(present) == 0 {
		return one(Problem, "no agent is running: no task starts", "start one with `leasehold run`")
	}
	return one(Problem, fmt.Sprintf("none of the %d agents that run claims tasks: they are cordoned, drain, or have no workers", len(present)),
		"start another agent, or `leasehold agents uncordon NAME`")
}

func (x *examination) absentAgents() (found []Finding) {
	present := x.present()
	for i := range x.Agents {
		a := &x.Agents[i]
		back := slices.ContainsFunc(present, func(p store.AgentInfo) bool { return p.Name == a.Name })
		if a.State != store.AgentAbsent || back {
			continue
		}
		found = append(found, Finding{
			Severity: Notice, About: OneLine(a.Name, mostName), Since: &a.SeenAt,
			Remedy: "if its process is still there (frozen), end that first: kill -KILL PID; then start it again, if it is to run; its tasks are requeued",
			What:   fmt.Sprintf("agent %s has vanished without a word: its last heartbeat came %s ago", OneLine(a.Name, mostName), Age(x.Now.Sub(a.SeenAt))),
		})
	}
	return found
}

// renewed is how old the last heartbeat of an agent that runs is at most: one is due every two seconds or sooner (lease.Period).
const renewed = 5 * time.Second

// superseded reports whether a present session has sent no heartbeat since another of its name has started: its agent was killed, or is frozen, and
// started again.
func superseded(a *store.AgentInfo, present []store.AgentInfo) bool {
	return slices.ContainsFunc(present, func(b store.AgentInfo) bool {
		return b.Name == a.Name && b.Session != a.Session && b.StartedAt.After(a.StartedAt) && !a.SeenAt.After(b.StartedAt)
	})
}

// agentsTwice counts the agents of each name that renew their sessions. A session lasts for its TTL after its agent was killed.
func (x *examination) agentsTwice() (found []Finding) {
	sessions := map[string]int{}
	present := x.present()
	for i := range present {
		a := &present[i]
		if a.State != store.AgentDraining && x.Now.Sub(a.SeenAt) <= renewed && !superseded(a, present) {
			sessions[a.Name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sessions)) {
		if n := sessions[name]; n > 1 {
			found = append(found, Finding{
				Severity: Notice, About: OneLine(name, mostName), Remedy: "set agent.name of each, or stop those that are not to run",
				What: fmt.Sprintf("%d agents that are running have the name %s", n, OneLine(name, mostName)),
			})
		}
	}
	return found
}

func (x *examination) cordonedAgents() (found []Finding) {
	for _, a := range x.present() {
		if a.State == store.AgentCordoned {
			found = append(found, Finding{
				Severity: Notice, About: OneLine(a.Name, mostName), Remedy: "leasehold agents uncordon " + ShellQuote(a.Name),
				What: fmt.Sprintf("agent %s is cordoned%s: it claims no tasks", OneLine(a.Name, mostName), byWhom(a.OrderedBy)),
			})
		}
	}
	return found
}

func (x *examination) stuckAgents() (found []Finding) {
	for _, a := range x.present() {
		c := a.Condition
		if c == nil || c.Stuck == 0 && c.Starved == 0 {
			continue
		}
		name := OneLine(a.Name, mostName)
		f := Finding{Severity: Problem, About: name, Remedy: "look at its log, and restart it: its tasks are requeued"}
		long := time.Duration(max(c.Stuck, c.Starved)) * time.Millisecond
		since := a.SeenAt.Add(-long)
		f.Since = &since
		if f.What = fmt.Sprintf("the loop of agent %s has not turned for %s: it starts nothing", name, Age(long)); c.Stuck == 0 {
			f.What = fmt.Sprintf("agent %s has free slots, tasks are due, and it could claim none for %s", name, Age(long))
		}
		found = append(found, f)
	}
	return found
}

func (x *examination) clockJumps() (found []Finding) {
	for _, a := range x.present() {
		if a.Condition == nil || a.Condition.Jumped == 0 {
			continue
		}
		at := a.SeenAt.Add(-time.Duration(a.Condition.Jumped) * time.Millisecond)
		found = append(found, Finding{
			Severity: Problem, About: OneLine(a.Name, mostName), Since: &at,
			What: fmt.Sprintf("agent %s saw the store's clock jump %s ago: leases were written anew, and due times moved", OneLine(a.Name, mostName),
				Age(x.Now.Sub(at))),
			Remedy: "have NTP slew the clock of the store's machine, and its virtual machine not be suspended",
		})
	}
	return found
}

func (x *examination) openBreakers() (found []Finding) {
	type target struct{ types, phase string }
	type open struct {
		since  time.Time
		reason string
		agents int
	}
	all := map[target]*open{}
	present := x.present()
	for i := range present {
		if present[i].Condition == nil {
			continue
		}
		for _, b := range present[i].Condition.Breakers {
			k := target{strings.Join(b.Types, ", "), string(b.Phase)}
			since := b.Since(present[i].SeenAt)
			o := all[k]
			if o == nil {
				o = &open{since: since}
				all[k] = o
			}
			o.agents++
			if o.reason = cmp.Or(o.reason, b.Error); since.Before(o.since) {
				o.since = since
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(all), func(a, b target) int {
		return cmp.Or(cmp.Compare(a.types, b.types), cmp.Compare(a.phase, b.phase))
	}) {
		o := all[k]
		f := Finding{
			Severity: Problem, About: OneLine(k.types, mostName), Since: &o.since,
			Remedy: "bring the target back: agents go on when it is reached",
		}
		f.What = fmt.Sprintf("the target of %s (%s) is out of reach of %d of %d agents %s", f.About, k.phase, o.agents, len(present), clock(x.Now, o.since))
		if o.reason != "" {
			f.What += ": " + OneLine(o.reason, 200)
		}
		found = append(found, f)
	}
	return found
}

func (x *examination) versions() []Finding {
	versions := map[string]bool{}
	for _, a := range x.present() {
		versions[OneLine(a.Version, mostName)] = true
	}
	if len(versions) < 2 {
		return nil
	}
	return one(Notice, "agents of different versions run: "+list(slices.Sorted(maps.Keys(versions))), "finish the deployment")
}

// configurations compares the agents of a region that declare the same types, but for observers: that they claim nothing is such a difference.
func (x *examination) configurations() (found []Finding) {
	type pool struct{ region, types string }
	hashes := map[pool]map[string][]store.AgentInfo{}
	for _, a := range x.present() {
		if a.Workers == 0 {
			continue
		}
		k := pool{a.Region, strings.Join(slices.Sorted(slices.Values(a.Types)), ", ")}
		if hashes[k] == nil {
			hashes[k] = map[string][]store.AgentInfo{}
		}
		hashes[k][a.Config] = append(hashes[k][a.Config], a)
	}
	for _, k := range slices.SortedFunc(maps.Keys(hashes), func(a, b pool) int {
		return cmp.Or(cmp.Compare(a.region, b.region), cmp.Compare(a.types, b.types))
	}) {
		if len(hashes[k]) < 2 {
			continue
		}
		f := Finding{Severity: Problem, Remedy: "load the same configuration on each (`leasehold reload`); `leasehold declarations` shows what differs"}
		var each []string
		for _, hash := range slices.Sorted(maps.Keys(hashes[k])) {
			agents := hashes[k][hash]
			each = append(each, fmt.Sprintf("%s (%s%s)", OneLine(hash, mostName), OneLine(agents[0].Name, mostName), others(len(agents)-1)))
			for i := range agents {
				if x.Now.Sub(agents[i].StartedAt) < rollout {
					f.Severity = Notice
				}
			}
		}
		where := "agents"
		if f.About = OneLine(k.region, mostName); k.region != "" {
			where = "agents of region " + f.About
		}
		f.What = where + " with the same task types have different configurations: " + list(each)
		found = append(found, f)
	}
	return found
}

// others writes how many there are beside the one that is named.
func others(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// list writes names as a list, the first few of them.
func list(names []string) string {
	const most = 4
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
