package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

type agentsRegionsCmd struct{}

// Help gives examples.
func (agentsRegionsCmd) Help() string {
	return `Tasks of a region are claimed by agents of that region alone. Listed are the regions with due tasks whose types no running agent of the
region declares. DUE is how many such tasks there are; of each type the first 5,000 waiting ones are looked at. AGENTS is how many agents of
the region run all the same, with other types. Agents with workers = 0 do not count.

Examples:

    leasehold agents regions
    leasehold agents regions -o json`
}

// Run lists regions.
func (agentsRegionsCmd) Run(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		list, err := ops.ReadRegions(call, s)
		if err != nil {
			return err
		}
		return printList(a, list, table.Row{"REGION", "AGENTS", "DUE", "TYPES"}, regionRow)
	})
}

// regionRow is a region in a table.
func regionRow(r ops.RegionReport) table.Row {
	const most = 60
	due := ops.Thousands(r.Due)
	if r.More {
		due += "+"
	}
	return table.Row{ops.OneLine(r.Region, most), r.Agents, due, ops.OneLine(strings.Join(r.Types, ", "), most)}
}

// regionLines says below a list of agents for which regions there is none.
func (a *app) regionLines(ctx context.Context, s dataStore, agents []store.AgentInfo) error {
	if a.cli.Output != "table" {
		return nil
	}
	orphans, err := s.RegionOrphans(ctx)
	if err != nil {
		return err
	}
	return a.people(func(w io.Writer) error {
		for _, r := range ops.RegionReports(orphans, agents) {
			if _, err := fmt.Fprintln(w, r); err != nil {
				return err
			}
		}
		return nil
	})
}
