package config

import (
	"encoding/json"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/leasehold/leasehold/internal/task"
)

// loader is the state of one Load.
type loader struct {
	opts    Options
	outside *outside
	diags   hcl.Diagnostics
	text    map[string][]byte      // sources by name
	order   map[string]int         // of files, for sorting
	masks   map[string][]hcl.Range // literal secrets in the sources

	warnings []Warning
	hosts    map[*task.Webhook]string // of their URLs, which no row changes
}

func newLoader(opts Options) *loader {
	return &loader{
		opts:    opts,
		outside: &outside{lookup: opts.LookupEnv, env: make(map[string]*string), files: make(map[string]string)},
		text:    make(map[string][]byte),
		order:   make(map[string]int),
		masks:   make(map[string][]hcl.Range),
		hosts:   make(map[*task.Webhook]string),
	}
}

// found is a top-level block with its file.
type found struct {
	block *hclsyntax.Block
	scope *scope
}

// decode turns the files' blocks into one configuration. base is the directory that defaults resolve from.
func (l *loader) decode(sources []*source, base string) *Config {
	var agents, stores, tasks, schedules, chunks []found
	for _, src := range sources {
		scope := l.scope(src)
		top := &block{scope: scope, shape: fileShape(), body: src.body, rng: src.body.SrcRange}
		top.checkNames()
		for _, b := range src.body.Blocks {
			f := found{b, scope}
			switch b.Type {
			case "agent":
				agents = append(agents, f)
			case "store":
				stores = append(stores, f)
			case "task":
				tasks = append(tasks, f)
			case "schedule":
				schedules = append(schedules, f)
			case "chunks":
				chunks = append(chunks, f)
			}
		}
	}
	defaults := l.scope(&source{dir: base})
	cfg := &Config{samples: make(map[string]json.RawMessage), places: make(map[string]string)}
	agent := l.only(agents, defaults, agentShape())
	cfg.Agent = agent.agent()
	store := l.only(stores, defaults, storeShape())
	cfg.Store = store.store(base)
	cfg.printed = append(cfg.printed, agent.out, store.out)
	cfg.site(agent)
	cfg.site(store)
	l.tasks(tasks, cfg)
	l.schedules(schedules, cfg)
	l.chunks(chunks, cfg)
	if agent.sound("listen", "advertise") {
		l.checkReach(cfg.Agent, agent.at("listen"), cfg.Tasks)
	}
	cfg.Warnings = l.inOrder()
	l.outside.sealed = true
	return cfg
}

// tasks adds the types that task blocks declare.
func (l *loader) tasks(all []found, cfg *Config) {
	names := make(map[string]hcl.Range)
	blocks := make(map[*task.Type]*block)
	for _, f := range all {
		b := f.scope.block(f.block, taskShape())
		t := b.task(cfg.Agent.Workers)
		if t == nil {
			continue
		}
		l.claimNames(t, f.block, names)
		cfg.Tasks, blocks[t] = append(cfg.Tasks, t), b
		cfg.samples[t.Name] = sampleOf(f.block.Body)
		cfg.printed = append(cfg.printed, b.out)
	}
	for _, t := range cfg.Tasks {
		blocks[t].warnOfOnFailed(t, cfg)
	}
}

// only is the one block of a kind that a configuration may have; an empty one where there is none.
func (l *loader) only(all []found, defaults *scope, shape *shape) *block {
	if len(all) == 0 {
		return defaults.block(nil, shape)
	}
	for _, f := range all[1:] {
		l.fail(f.block.DefRange(), "Duplicate block", "Only one %s block is allowed in a configuration; another one is at %s.",
			shape.name, place(all[0].block.DefRange()))
	}
	return all[0].scope.block(all[0].block, shape)
}

// claimNames notes which declaration claims which row types: each is claimed by one.
func (l *loader) claimNames(t *task.Type, b *hclsyntax.Block, names map[string]hcl.Range) {
	for i, name := range t.Names() {
		at := b.DefRange()
		if a := b.Body.Attributes["aliases"]; i > 0 && a != nil {
			at = a.SrcRange
		}
		other, taken := names[name]
		switch {
		case !taken:
			names[name] = at
		case i == 0:
			l.fail(at, "Duplicate task", "The type %q is already declared at %s.", name, place(other))
		default:
			l.fail(at, "Duplicate task", "The alias %q is already the name or an alias of the task at %s.", name, place(other))
		}
	}
}
