package config

import (
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/task"
)

// onFailed reads the type of the row that is inserted for each task of a type that has failed for good; "" for none.
func (b *block) onFailed(of *task.Type) string {
	if b.attr("on_failed") == nil {
		return ""
	}
	return b.str("on_failed", "", func(s string) error {
		switch {
		case s == "":
			return nil
		case slices.Contains(of.Names(), s):
			return fmt.Errorf("%q is this type: name another, whose tasks handle the failures of this one", s)
		}
		return task.CheckTypeName(s)
	})
}

// warnOfOnFailed warns of a type that no task block declares. Agents with another configuration may run it.
func (b *block) warnOfOnFailed(t *task.Type, cfg *Config) {
	typ := t.Policy.OnFailed
	if typ == "" || cfg.Type(typ) != nil {
		return
	}
	others := slices.DeleteFunc(cfg.typeNames(), func(name string) bool { return slices.Contains(t.Names(), name) })
	b.l.warn(b.at("on_failed"), "For each task of the type %q that has failed for good, a task of the type %q is inserted, which no task block of this "+
		"configuration declares, so its agents will not run them.%s Declare task %q { … }, unless agents with another configuration do.",
		t.Name, typ, didYouMean(typ, others), typ)
}
