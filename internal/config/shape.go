package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/internal/task"
)

// shape is what may stand in a block.
type shape struct {
	name   string   // of the block; "" for a file
	label  string   // what its label is; "" for none
	attrs  []string // in the order they are printed
	blocks []string
	never  map[string]string // what stands elsewhere and would mean nothing here, and why
	called map[string]string // what other tools call what is called otherwise here, and the remedy
}

func fileShape() *shape {
	return &shape{blocks: []string{"agent", "store", "task", "schedule", "chunks"}, called: calledInFile()}
}

// allowed says what may stand in the block.
func (s *shape) allowed() string {
	var parts []string
	if len(s.attrs) > 0 {
		parts = append(parts, strings.Join(s.attrs, ", "))
	}
	if len(s.blocks) > 0 {
		parts = append(parts, "the blocks "+strings.Join(s.blocks, ", "))
	}
	if s.name == "" {
		return "Allowed in a file: " + strings.Join(parts, "; ") + "."
	}
	return "Allowed in " + s.name + ": " + strings.Join(parts, "; ") + "."
}

// names lists everything that has a name in the block.
func (s *shape) names() []string { return slices.Concat(s.attrs, s.blocks) }

// didYouMean suggests the candidate that is nearest to a name, if one is near.
func didYouMean(name string, candidates []string) string {
	best := task.Nearest(name, candidates)
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}

// oneOf lists allowed values: `"a", "b" or "c"`.
func oneOf(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = fmt.Sprintf("%q", v)
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " or " + quoted[len(quoted)-1]
}
