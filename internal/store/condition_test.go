package store

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A condition has so many entries, and texts of so many characters, whatever is put into it.
func TestConditionsAreBounded(t *testing.T) {
	t.Parallel()
	require.Empty(t, Condition{}.Text())
	c := Condition{Chunks: []WaitingPlan{{"events", "a transaction is 11m old"}}}
	require.Equal(t, &c, ReadCondition(c.Text()))
	long := strings.Repeat("ü", 1000)
	c = Condition{Breakers: make([]OpenBreaker, 100), Chunks: make([]WaitingPlan, 100)}
	for i := range c.Chunks {
		c.Breakers[i].Error, c.Chunks[i] = long, WaitingPlan{"events", long}
	}
	got := ReadCondition(c.Text())
	require.Len(t, got.Breakers, MostConditions)
	require.Len(t, got.Chunks, MostConditions)
	for _, text := range []string{got.Breakers[0].Error, got.Chunks[0].Why} {
		require.Equal(t, strings.Repeat("ü", 299)+"…", text)
	}
	require.Equal(t, long, c.Chunks[0].Why, "the session's own is left alone")
	require.Nil(t, ReadCondition("{"))
}
