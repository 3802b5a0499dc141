package ops

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// logged is a store with a log of declarations, the newest first, of blocks of one name.
type logged struct {
	planned
	log []store.DeclaredBlock
	err error
}

func (l logged) Declarations(context.Context) ([]store.DeclaredBlock, error) { return l.log, l.err }

func (l logged) BlockHistory(_ context.Context, _, _ string, limit int) ([]store.DeclaredBlock, error) {
	return l.log[:min(limit, len(l.log))], l.err
}

func (logged) DeclareBlocks(context.Context, task.Session, []store.Block) (bool, error) {
	return false, nil
}

func TestDefinitionsAreComparedWithTheOneBefore(t *testing.T) {
	l := logged{planned: planned{agents: agentsNamed("one", "two", "one")}, log: []store.DeclaredBlock{
		by(typeBlock("a", `"3s"`), 3, 2, 1, 9), by(typeBlock("a", `"2s"`)), by(typeBlock("a", `"1s"`), 2),
	}}
	history := func(limit int) []Definition {
		list, err := DefinitionHistory(t.Context(), l, "task", "a", limit)
		require.NoError(t, err)
		return list
	}
	all := history(10)
	require.Len(t, all, 3)
	require.Equal(t, []FieldChange{{"timeout", `"2s"`, `"3s"`}}, all[0].Changes)
	require.Equal(t, []string{"one", "two"}, all[0].Agents, "each name once, and those alone that are present")
	require.Equal(t, []FieldChange{{"timeout", `"1s"`, `"2s"`}}, all[1].Changes)
	require.Equal(t, []string{}, all[1].Agents)
	require.True(t, all[2].First)
	require.Empty(t, all[2].Changes)
	require.Equal(t, all[:2], history(2), "the last of a part is compared with one that is not listed")
	require.Equal(t, all, history(3))
}

func TestDefinitionsThatAreNot(t *testing.T) {
	_, err := DefinitionHistory(t.Context(), logged{}, "task", "a", 10)
	require.ErrorIs(t, err, ErrNoDeclaration)
	broken := errors.New("broken")
	_, err = DefinitionHistory(t.Context(), logged{err: broken}, "task", "a", 10)
	require.ErrorIs(t, err, broken)
	list, err := Definitions(t.Context(), logged{}, "", false)
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestDefinitionsOfAKind(t *testing.T) {
	nightly := store.Block{Kind: "schedule", Name: "nightly"}
	l := logged{planned: planned{agents: agentsNamed("one"), declared: []store.DeclaredBlock{by(nightly, 1)}},
		log: []store.DeclaredBlock{by(nightly, 1), by(typeBlock("gone", `"1s"`))}}
	for _, c := range []struct {
		kind string
		all  bool
		want []string
	}{
		{"", false, []string{"nightly"}}, {"task", false, nil}, {"", true, []string{"nightly", "gone"}}, {"task", true, []string{"gone"}},
	} {
		list, err := Definitions(t.Context(), l, c.kind, c.all)
		require.NoError(t, err)
		var names []string
		for _, d := range list {
			names = append(names, d.Name)
		}
		require.Equal(t, c.want, names, c)
	}
}
