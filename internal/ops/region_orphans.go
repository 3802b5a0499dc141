package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
)

// RegionReport is a region with due tasks that no present agent of it declares.
type RegionReport struct {
	Region string   `json:"region"`
	Due    int64    `json:"due"`
	More   bool     `json:"more,omitempty"` // not all rows were looked at, so there may be more
	Agents int      `json:"agents"`         // present ones of the region with workers; none of them declares these types
	Types  []string `json:"types"`
}

// regionStore is what is read of regions.
type regionStore interface {
	ListAgents(ctx context.Context, all bool) ([]store.AgentInfo, error)
	RegionOrphans(ctx context.Context) ([]store.RegionOrphan, error)
}

// ReadRegions lists the regions with due tasks that no present agent of them declares, by name.
func ReadRegions(ctx context.Context, s regionStore) ([]RegionReport, error) {
	agents, err := s.ListAgents(ctx, false)
	if err != nil {
		return nil, err
	}
	orphans, err := s.RegionOrphans(ctx)
	if err != nil {
		return nil, err
	}
	return RegionReports(orphans, agents), nil
}

// RegionReports sums the rows of each region. agents are sessions of any state; list is in the order of the regions.
func RegionReports(list []store.RegionOrphan, agents []store.AgentInfo) []RegionReport {
	reports := []RegionReport{}
	for _, o := range list {
		if n := len(reports); n == 0 || reports[n-1].Region != o.Region {
			reports = append(reports, RegionReport{Region: o.Region, Agents: ofRegion(agents, o.Region)})
		}
		r := &reports[len(reports)-1]
		r.Due, r.More, r.Types = r.Due+o.Due, r.More || o.More, append(r.Types, o.Type)
	}
	return reports
}

// ofRegion counts the present agents of a region that have workers.
func ofRegion(agents []store.AgentInfo, region string) (n int) {
	for i := range agents {
		a := &agents[i]
		if a.Region == region && a.Workers > 0 && a.State != store.AgentAbsent && a.State != store.AgentLeft {
			n++
		}
	}
	return n
}

// String says how many tasks wait for an agent of the region; it names a few of the types where there are agents that declare others.
func (r RegionReport) String() string {
	const most, named = 60, 5
	orMore := ""
	if r.More {
		orMore = " or more"
	}
	text := fmt.Sprintf("region %s: %s%s due %s, ", OneLine(r.Region, most), Thousands(r.Due), orMore, rowsOf(r.Due, r.More))
	if r.Agents == 0 {
		return text + "no agent"
	}
	types := make([]string, 0, named)
	for _, typ := range r.Types[:min(named, len(r.Types))] {
		types = append(types, OneLine(typ, most))
	}
	if n := len(r.Types) - named; n > 0 {
		types = append(slices.Clip(types), fmt.Sprintf("%d more", n))
	}
	return text + "no agent of it declares " + strings.Join(types, ", ")
}

// rowsOf is "row" for one, and "rows" for others.
func rowsOf(n int64, more bool) string {
	if n == 1 && !more {
		return "row"
	}
	return "rows"
}
