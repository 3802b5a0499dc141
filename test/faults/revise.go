//go:build linux

package faults

import (
	"fmt"
	"math/rand/v2"

	"github.com/leasehold/leasehold/test/faults/history"
)

// The type that an upgrade renames: the next configuration has the former name among its aliases.
const (
	kindFormer  = "former"
	kindRenamed = "renamed"
)

// Limits that an upgrade changes: one becomes less, and the type that is renamed gets more.
const (
	formerMost  = 2
	renamedMost = 4
	cappedNext  = 3
	aheadNext   = chunksAhead - 2
)

// Names under which producers insert rows of the type that is renamed.
const (
	oldName    = iota
	eitherName // by chance, as while producers are replaced
	newName
)

// nameOf is the type of a row that is to be of that one.
func (w *world) nameOf(r *rand.Rand, kind string) string {
	if names := w.names.Load(); kind == kindFormer && (names == newName || names == eitherName && r.IntN(2) == 0) {
		return kindRenamed
	}
	return kind
}

// declares reports whether the agent's configuration declares a type.
func (a *agent) declares(kind string) bool {
	switch kind {
	case kindFormer:
		return a.w.o.later > 0 && !a.revised
	case kindRenamed:
		return a.revised
	}
	return true
}

// most is the limit of a type in the agent's configuration; 0: it has none.
func (a *agent) most(k history.Kind) int {
	if a.revised && k.Name == kindCapped {
		return cappedNext
	}
	return k.Most
}

// ahead is that of the chunk plan in the agent's configuration.
func (a *agent) ahead() int {
	if a.revised {
		return aheadNext
	}
	return chunksAhead
}

// declareWatched declares what has no rows, in agents of an upgrade: a type whose text is the same for all agents of a version, so that
// it is noted once, and a schedule.
func (a *agent) declareWatched() string {
	if a.w.o.later == 0 {
		return ""
	}
	limit, each, rule, payload := 7, 2, "continue", 1
	if a.revised {
		limit, each, rule, payload = 6, 1, "block", 2
	}
	return fmt.Sprintf(`task "watched" {
  limit = %d
  tenant {
    limit = %d
  }
  sequence {
    on_failure = %q
  }
  webhook {
    url = "http://127.0.0.1:1/"
  }
}
schedule "watched" {
  task    = %q
  every   = "1s"
  payload = { version = %d }
}
`, limit, each, rule, kindTick, payload)
}
