package ops

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

func TestRegionsAreSummed(t *testing.T) {
	agents := []store.AgentInfo{
		{Region: "sg", Workers: 4, State: store.AgentAbsent}, {Region: "sg", Workers: 4, State: store.AgentLeft},
		{Region: "sg", State: store.AgentObserver}, {Region: "eu", Workers: 1, State: store.AgentCordoned}, {Region: "eu", Workers: 1, State: store.AgentWorking},
		{Workers: 1, State: store.AgentWorking},
	}
	of := func(region, typ string, n int64) store.RegionOrphan {
		return store.RegionOrphan{Region: region, Type: typ, Due: n}
	}
	many := of("us", "z", 5000)
	many.More = true
	got := RegionReports([]store.RegionOrphan{
		of("eu", "a", 1), of("eu", "b", 1200), of("sg", "a", 1), of("us", "y", 1), many,
	}, agents)
	require.Equal(t, []RegionReport{
		{Region: "eu", Due: 1201, Agents: 2, Types: []string{"a", "b"}}, {Region: "sg", Due: 1, Types: []string{"a"}},
		{Region: "us", Due: 5001, More: true, Types: []string{"y", "z"}},
	}, got)
	require.Equal(t, "region eu: 1,201 due rows, no agent of it declares a, b", got[0].String())
	require.Equal(t, "region sg: 1 due row, no agent", got[1].String())
	require.Equal(t, "region us: 5,001 or more due rows, no agent", got[2].String())
	got[0].Types = []string{"a", "b", "c", "d", "e\n", "f", "g"}
	require.Equal(t, "region eu: 1,201 due rows, no agent of it declares a, b, c, d, e, 2 more", got[0].String())
	require.Equal(t, []RegionReport{}, RegionReports(nil, agents))
}
