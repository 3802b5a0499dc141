package ops

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What a plan says of a block.
const (
	PlanAdded   = "added"
	PlanChanged = "changed"
	PlanRemoved = "removed" // no present agent would declare it any more
)

// PlanReport is what would be different if a configuration replaced those of the present agents that share a block with it.
type PlanReport struct {
	Replaces  []string      `json:"replaces"` // agents whose configuration it replaces, by name
	Keeps     []string      `json:"keeps"`    // the other present agents
	Unchanged int           `json:"unchanged"`
	Changes   []BlockChange `json:"changes"`
	// Orphans are waiting rows of types that no agent would declare, by type: those that have such rows already are among them.
	Orphans map[string]int64 `json:"orphans,omitempty"`
	Capped  bool             `json:"capped,omitempty"` // there are more rows than were counted
}

// Differs reports whether anything would be different.
func (r *PlanReport) Differs() bool { return len(r.Changes) > 0 }

// BlockChange is a block that would be different.
type BlockChange struct {
	Kind    string        `json:"kind"`
	Name    string        `json:"name"`
	What    string        `json:"what"`
	Fields  []FieldChange `json:"fields,omitempty"`     // of one that is changed
	Also    []string      `json:"also,omitempty"`       // agents that declare it in an older way, or go on declaring it
	Waiting int64         `json:"waiting,omitempty"`    // rows of a task type, aliases included
	Running int64         `json:"running,omitempty"`    // attempts that keep the policy they began with
	Claimed string        `json:"renamed_to,omitempty"` // the type that has a removed one among its aliases
}

// FieldChange is an attribute that would be different. "" is none.
type FieldChange struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// PlanStore is what Plan reads.
type PlanStore interface {
	DeclaredBlocks(ctx context.Context) ([]store.DeclaredBlock, error)
	ListAgents(ctx context.Context, all bool) ([]store.AgentInfo, error)
	Counts(ctx context.Context) (store.Stats, error)
}

// Plan compares a configuration with what present agents declare. It replaces the configurations of those that declare a block of the same
// kind and name; where there are none it adds all that it has. claims returns the type that claims rows of a type; "" for none.
func Plan(ctx context.Context, s PlanStore, blocks []store.Block, claims func(typ string) string) (*PlanReport, error) {
	declared, err := s.DeclaredBlocks(ctx)
	if err != nil {
		return nil, err
	}
	agents, err := s.ListAgents(ctx, false)
	if err != nil {
		return nil, err
	}
	stats, err := s.Counts(ctx)
	if err != nil {
		return nil, err
	}
	p := planning{agents: map[task.Session]store.AgentInfo{}, replaced: map[task.Session]bool{}, claims: claims, stats: &stats}
	for _, a := range agents {
		p.agents[a.Session] = a
	}
	p.compare(blocks, declared)
	p.report.Capped = stats.More
	return &p.report, nil
}

// planning is one call of Plan.
type planning struct {
	agents   map[task.Session]store.AgentInfo
	replaced map[task.Session]bool
	claims   func(string) string
	stats    *store.Stats
	report   PlanReport
}

type blockKey struct{ kind, name string }

func (p *planning) compare(blocks []store.Block, declared []store.DeclaredBlock) {
	wanted := map[blockKey]*store.Block{}
	for i := range blocks {
		wanted[blockKey{blocks[i].Kind, blocks[i].Name}] = &blocks[i]
	}
	for i := range declared {
		if wanted[blockKey{declared[i].Kind, declared[i].Name}] != nil {
			for _, session := range declared[i].Sessions {
				p.replaced[session] = true
			}
		}
	}
	p.name()
	before := map[blockKey][]*store.DeclaredBlock{} // by replaced agents, the newest last
	kept := map[blockKey][]string{}                 // by the others
	for i := range declared {
		d := &declared[i]
		k := blockKey{d.Kind, d.Name}
		if slices.ContainsFunc(d.Sessions, func(s task.Session) bool { return p.replaced[s] }) {
			before[k] = append(before[k], d)
		}
		for _, s := range d.Sessions {
			if !p.replaced[s] {
				kept[k] = append(kept[k], p.agents[s].Name)
			}
		}
	}
	for i := range blocks {
		k := blockKey{blocks[i].Kind, blocks[i].Name}
		p.present(&blocks[i], before[k], kept[k])
	}
	for k := range before {
		if wanted[k] == nil && len(kept[k]) == 0 {
			p.removed(k)
		}
	}
	slices.SortFunc(p.report.Changes, func(a, b BlockChange) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	p.orphans()
}

// name says which agents it replaces.
func (p *planning) name() {
	p.report.Replaces, p.report.Keeps, p.report.Changes = []string{}, []string{}, []BlockChange{}
	for session, a := range p.agents {
		if p.replaced[session] {
			p.report.Replaces = append(p.report.Replaces, a.Name)
		} else {
			p.report.Keeps = append(p.report.Keeps, a.Name)
		}
	}
	for _, list := range []*[]string{&p.report.Replaces, &p.report.Keeps} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
}

// present compares a block that the configuration has.
func (p *planning) present(b *store.Block, before []*store.DeclaredBlock, kept []string) {
	c := BlockChange{Kind: b.Kind, Name: b.Name, What: PlanAdded, Also: kept}
	if n := len(before); n > 0 {
		newest := before[n-1]
		c.What, c.Fields = PlanChanged, differences(newest.Fields, b.Fields)
		if len(c.Fields) == 0 {
			p.report.Unchanged++
			return
		}
		for _, older := range before[:n-1] {
			for _, s := range older.Sessions {
				c.Also = append(c.Also, p.agents[s].Name)
			}
		}
	}
	c.Waiting, c.Running = p.rows(b.Kind, b.Name)
	p.report.Changes = append(p.report.Changes, c)
}

// removed notes a block that no agent would declare any more.
func (p *planning) removed(k blockKey) {
	c := BlockChange{Kind: k.kind, Name: k.name, What: PlanRemoved}
	c.Waiting, c.Running = p.rows(k.kind, k.name)
	if k.kind == "task" {
		c.Claimed = p.claims(k.name)
	}
	p.report.Changes = append(p.report.Changes, c)
}

// rows counts the live rows of a task type.
func (p *planning) rows(kind, name string) (waiting, running int64) {
	if kind != "task" {
		return 0, 0
	}
	for _, n := range p.stats.Waiting {
		switch {
		case n.Type != name:
		case n.State.Running():
			running += n.N
		default:
			waiting += n.N
		}
	}
	return waiting, running
}

// orphans counts the waiting rows that no agent would claim.
func (p *planning) orphans() {
	claimed := map[string]bool{}
	for session, a := range p.agents {
		if !p.replaced[session] && a.Workers > 0 {
			for _, typ := range a.Types {
				claimed[typ] = true
			}
		}
	}
	for _, n := range p.stats.Waiting {
		if !n.State.Running() && n.N > 0 && p.claims(n.Type) == "" && !claimed[n.Type] {
			if p.report.Orphans == nil {
				p.report.Orphans = map[string]int64{}
			}
			p.report.Orphans[n.Type] += n.N
		}
	}
}

// differences lists the attributes that differ, by name.
func differences(before, after map[string]string) (list []FieldChange) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if before[name] != after[name] {
			list = append(list, FieldChange{name, before[name], after[name]})
		}
	}
	return list
}
