package ops

import (
	"context"
	"errors"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ErrNoDeclaration says that no configuration has ever declared such a block.
var ErrNoDeclaration = errors.New("no such block was ever declared")

// Definition is a block as a configuration has declared it. Times are the store's clock.
type Definition struct {
	store.DeclaredBlock
	Agents []string `json:"agents"` // present ones that declare it, by name
	// Changes are the attributes that differ from the definition before: that with the next lower number. First: there was none.
	Changes []FieldChange `json:"changes,omitempty"`
	First   bool          `json:"first,omitempty"`
}

// DefinitionStore is what is read of definitions.
type DefinitionStore interface {
	Declarations
	ListAgents(ctx context.Context, all bool) ([]store.AgentInfo, error)
}

// Definitions lists what present agents declare, by kind and name; with all, also the newest definition of each block that none of them
// declares any more. kind is task, schedule or chunks; "" for all. Nothing is compared.
func Definitions(ctx context.Context, s DefinitionStore, kind string, all bool) ([]Definition, error) {
	read := s.DeclaredBlocks
	if all {
		read = s.Declarations
	}
	blocks, err := read(ctx)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		blocks = slices.DeleteFunc(blocks, func(b store.DeclaredBlock) bool { return b.Kind != kind })
	}
	return definitions(ctx, s, blocks)
}

// DefinitionHistory lists the definitions of a block, the newest first, limit at most, each with what differs from the one before it;
// ErrNoDeclaration where there are none.
func DefinitionHistory(ctx context.Context, s DefinitionStore, kind, name string, limit int) ([]Definition, error) {
	blocks, err := s.BlockHistory(ctx, kind, name, limit+1)
	if err != nil {
		return nil, err
	}
	if len(blocks) == 0 {
		return nil, ErrNoDeclaration
	}
	list, err := definitions(ctx, s, blocks)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if i+1 == len(list) {
			list[i].First = true
			break
		}
		list[i].Changes = differences(list[i+1].Fields, list[i].Fields)
	}
	return list[:min(limit, len(list))], nil
}

// definitions names the agents that declare each block.
func definitions(ctx context.Context, s DefinitionStore, blocks []store.DeclaredBlock) ([]Definition, error) {
	agents, err := s.ListAgents(ctx, false)
	if err != nil {
		return nil, err
	}
	names := make(map[task.Session]string, len(agents))
	for _, a := range agents {
		names[a.Session] = a.Name
	}
	list := make([]Definition, len(blocks))
	for i, b := range blocks {
		list[i] = Definition{DeclaredBlock: b, Agents: []string{}}
		for _, session := range b.Sessions {
			if name, present := names[session]; present {
				list[i].Agents = append(list[i].Agents, name)
			}
		}
		slices.Sort(list[i].Agents)
		list[i].Agents = slices.Compact(list[i].Agents)
	}
	return list, nil
}
