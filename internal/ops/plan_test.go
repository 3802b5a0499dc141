package ops

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// planned is a store as Plan sees it.
type planned struct {
	declared []store.DeclaredBlock
	agents   []store.AgentInfo
	stats    store.Stats
}

func (p planned) DeclaredBlocks(context.Context) ([]store.DeclaredBlock, error) {
	return p.declared, nil
}
func (p planned) ListAgents(context.Context, bool) ([]store.AgentInfo, error) { return p.agents, nil }
func (p planned) Counts(context.Context) (store.Stats, error)                 { return p.stats, nil }

func typeBlock(name, timeout string) store.Block {
	return store.Block{Kind: "task", Name: name, Fields: map[string]string{"timeout": timeout, "retry.limit": "2"}}
}

func plan(t *testing.T, p planned, claims map[string]string, blocks ...store.Block) *PlanReport {
	t.Helper()
	for i := range p.declared {
		p.declared[i].Number = int64(i + 1)
	}
	r, err := Plan(t.Context(), p, blocks, func(typ string) string { return claims[typ] })
	require.NoError(t, err)
	return r
}

func by(b store.Block, sessions ...task.Session) store.DeclaredBlock {
	return store.DeclaredBlock{Block: b, Sessions: sessions}
}

func agentsNamed(names ...string) (list []store.AgentInfo) {
	for i, name := range names {
		list = append(list, store.AgentInfo{Session: task.Session(i + 1), Name: name, Workers: 4, Types: []string{"of " + name}})
	}
	return list
}

func TestPlanWithoutAgentsAddsAll(t *testing.T) {
	r := plan(t, planned{stats: store.Stats{Waiting: []store.TypeCount{{Type: "old", State: task.StatePending, N: 7}}}},
		map[string]string{"a": "a"}, typeBlock("a", `"1s"`))
	require.True(t, r.Differs())
	require.Equal(t, []BlockChange{{Kind: "task", Name: "a", What: PlanAdded}}, r.Changes)
	require.Equal(t, map[string]int64{"old": 7}, r.Orphans)
}

func TestPlanComparesFieldByField(t *testing.T) {
	p := planned{
		agents:   agentsNamed("one", "two"),
		declared: []store.DeclaredBlock{by(typeBlock("a", `"1s"`), 1), by(typeBlock("a", `"2s"`), 2), by(typeBlock("b", `"1s"`), 1, 2)},
		stats: store.Stats{Waiting: []store.TypeCount{
			{Type: "a", State: task.StatePending, N: 3}, {Type: "a", State: task.StateRetryPending, N: 2}, {Type: "a", State: task.StateRunning, N: 4},
		}},
	}
	r := plan(t, p, map[string]string{"a": "a", "b": "b"}, typeBlock("a", `"1s"`), typeBlock("b", `"1s"`))
	require.Equal(t, []string{"one", "two"}, r.Replaces)
	require.Equal(t, 1, r.Unchanged)
	require.Equal(t, []BlockChange{{
		Kind: "task", Name: "a", What: PlanChanged, Fields: []FieldChange{{"timeout", `"2s"`, `"1s"`}}, Also: []string{"one"},
		Waiting: 5, Running: 4,
	}}, r.Changes, "beside the newest declaration; one agent has an older one")
	require.Empty(t, r.Orphans)
	r = plan(t, p, map[string]string{"a": "a", "b": "b"}, typeBlock("a", `"2s"`), typeBlock("b", `"1s"`))
	require.False(t, r.Differs())
	require.Equal(t, 2, r.Unchanged)
}

func TestPlanLeavesOtherConfigurationsAlone(t *testing.T) {
	nightly := store.Block{Kind: "schedule", Name: "nightly", Fields: map[string]string{"cron": `"0 3 * * *"`}}
	p := planned{
		agents: agentsNamed("billing", "video"),
		declared: []store.DeclaredBlock{
			by(nightly, 1), by(typeBlock("invoice", `"1s"`), 1), by(typeBlock("old", `"1s"`), 1), by(typeBlock("shared", `"1s"`), 1, 2),
			by(typeBlock("resize", `"1s"`), 2),
		},
		stats: store.Stats{Waiting: []store.TypeCount{
			{Type: "old", State: task.StatePending, N: 3}, {Type: "of video", State: task.StatePending, N: 9}, {Type: "old", State: task.StateRunning, N: 1},
		}},
	}
	r := plan(t, p, map[string]string{"invoice": "invoice"}, typeBlock("invoice", `"1s"`))
	require.Equal(t, []string{"billing"}, r.Replaces)
	require.Equal(t, []string{"video"}, r.Keeps)
	require.Equal(t, []BlockChange{
		{Kind: "schedule", Name: "nightly", What: PlanRemoved},
		{Kind: "task", Name: "old", What: PlanRemoved, Waiting: 3, Running: 1},
	}, r.Changes, "shared goes on being declared")
	require.Equal(t, map[string]int64{"old": 3}, r.Orphans)

	r = plan(t, p, map[string]string{"invoice": "invoice", "old": "invoice"}, typeBlock("invoice", `"1s"`), nightly)
	require.Equal(t, []BlockChange{{Kind: "task", Name: "old", What: PlanRemoved, Waiting: 3, Running: 1, Claimed: "invoice"}}, r.Changes)
	require.Empty(t, r.Orphans, "an alias claims them")
}

func TestPlanOfManyTypes(t *testing.T) {
	p := planned{agents: agentsNamed("one")}
	var blocks []store.Block
	claims := map[string]string{}
	for i := range 50 {
		name := fmt.Sprintf("type.%02d", i)
		claims[name] = name
		if i%10 != 3 {
			p.declared = append(p.declared, by(typeBlock(name, `"1s"`), 1))
		}
		if i%10 == 5 {
			delete(claims, name)
			continue
		}
		timeout := `"1s"`
		if i%10 == 7 {
			timeout = `"2s"`
		}
		blocks = append(blocks, typeBlock(name, timeout))
	}
	r := plan(t, p, claims, blocks...)
	count := map[string]int{}
	for _, c := range r.Changes {
		count[c.What]++
	}
	require.Equal(t, map[string]int{PlanAdded: 5, PlanChanged: 5, PlanRemoved: 5}, count)
	require.Equal(t, 35, r.Unchanged)
}
