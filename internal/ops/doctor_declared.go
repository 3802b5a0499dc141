package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
)

// Kinds of blocks.
const (
	kindTask     = "task"
	kindSchedule = "schedule"
	kindChunks   = "chunks"
)

// differing are the definitions of one block that present agents declare, and the attributes in which they differ.
type differing struct {
	kind, name string
	blocks     []store.DeclaredBlock
	fields     []string
}

// differing lists the blocks that present agents declare differently, in the order of kinds and names.
func (x *examination) differing() (found []differing) {
	for rest := x.Declared; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Kind == rest[0].Kind && rest[n].Name == rest[0].Name {
			n++
		}
		if n > 1 {
			fields := map[string]bool{}
			for _, b := range rest[1:n] {
				for _, c := range differences(rest[0].Fields, b.Fields) {
					fields[c.Name] = true
				}
			}
			found = append(found, differing{rest[0].Kind, rest[0].Name, rest[:n], slices.Sorted(maps.Keys(fields))})
		}
		rest = rest[n:]
	}
	return found
}

// ofStore reports whether an attribute of a task type is about all agents of the store: its newest declaration is in force for all.
func ofStore(field string) bool {
	block, _, _ := strings.Cut(field, ".")
	return slices.Contains([]string{"limit", "rate", "burst", "tenant", "sequence"}, block)
}

// finding says that a block is declared differently. severity is that of one that lasts: while agents are being deployed it is a notice.
func (x *examination) differs(b *differing, severity Severity, fields []string, what string) Finding {
	for _, d := range b.blocks {
		if x.Now.Sub(d.FirstAt) < rollout {
			severity = Notice
		}
	}
	name := OneLine(b.name, mostName)
	remedy := "load the same definition everywhere: leasehold declarations " + ShellQuote(b.name)
	if b.kind != kindTask {
		remedy += " --kind " + b.kind
	}
	return Finding{
		Severity: severity, About: b.kind + " " + name, Remedy: remedy,
		What: fmt.Sprintf("agents declare %s %s differently in %s (%s): %s", b.kind, name, list(fields), x.declaredBy(b), what),
	}
}

// declaredBy names an agent for each definition.
func (x *examination) declaredBy(b *differing) string {
	var names []string
	for i := range b.blocks {
		for _, a := range x.Agents {
			if slices.Contains(b.blocks[i].Sessions, a.Session) {
				names = append(names, OneLine(a.Name, mostName))
				break
			}
		}
	}
	return list(names)
}

func (x *examination) limits() (found []Finding) {
	for _, b := range x.differing() {
		fields := slices.DeleteFunc(slices.Clone(b.fields), func(f string) bool { return !ofStore(f) })
		if b.kind == kindTask && len(fields) > 0 {
			found = append(found, x.differs(&b, Problem, fields, "the newest one is in force for all"))
		}
	}
	return found
}

func (x *examination) tasksOfNames() (found []Finding) {
	for _, b := range x.differing() {
		if b.kind == kindTask || !slices.Contains(b.fields, "task") {
			continue
		}
		tasks := map[string]bool{}
		for _, d := range b.blocks {
			tasks[OneLine(d.Fields["task"], mostName)] = true
		}
		name := OneLine(b.name, mostName)
		remove := "schedule"
		if b.kind == kindChunks {
			remove = kindChunks
		}
		found = append(found, Finding{
			Severity: Problem, About: b.kind + " " + name, Remedy: "rename one of them; `leasehold " + remove + " list` shows which one is in force",
			What: fmt.Sprintf("agents declare %s %s for different task types, %s (%s): only the first one is in force", b.kind, name,
				list(slices.Sorted(maps.Keys(tasks))), x.declaredBy(&b)),
		})
	}
	return found
}

func (x *examination) declarations() (found []Finding) {
	for _, b := range x.differing() {
		fields := slices.DeleteFunc(slices.Clone(b.fields), func(f string) bool {
			return b.kind == kindTask && ofStore(f) || b.kind != kindTask && f == "task"
		})
		switch {
		case len(fields) == 0:
		case b.kind == kindTask: // which may be meant: agents of another region may have targets of their own
			found = append(found, x.differs(&b, Notice, fields, "each agent goes by its own"))
		default:
			found = append(found, x.differs(&b, Problem, fields, "the newest one is in force for all"))
		}
	}
	return found
}
