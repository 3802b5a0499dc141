package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

type planCmd struct {
	Paths []string `arg:"" optional:"" name:"path" help:"Configuration files and directories."`
}

// Help gives examples.
func (planCmd) Help() string {
	return `Compares the configuration with what present agents declare: task types, schedules and chunk plans that would be added, changed or removed,
and waiting rows that no agent would run. It replaces the configurations of the agents that declare one of its blocks. Changes nothing. Exit 0 if
nothing would be different, 3 otherwise.

Examples:

    leasehold plan
    leasehold plan /etc/leasehold/ -o json`
}

// Run compares.
func (c planCmd) Run(a *app) error {
	cfg, err := a.readConfig(c.Paths)
	if err != nil {
		return err
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		report, err := ops.Plan(call, s, blocksOf(cfg), claimant(cfg))
		if err != nil {
			return err
		}
		if err := a.print(report, func(w io.Writer) error { return showPlan(w, report) }); err != nil {
			return err
		}
		if report.Differs() {
			return &failure{code: exitDiffers}
		}
		return nil
	})
}

// blocksOf returns the blocks of a configuration as the store keeps them.
func blocksOf(cfg *config.Config) []store.Block {
	blocks := cfg.Blocks()
	list := make([]store.Block, len(blocks))
	for i, b := range blocks {
		list[i] = store.Block(b)
	}
	return list
}

// claimant says which type of the configuration claims rows of a type.
func claimant(cfg *config.Config) func(string) string {
	return func(typ string) string {
		if t := cfg.Type(typ); t != nil {
			return t.Name
		}
		return ""
	}
}

// showPlan writes a plan for people.
func showPlan(w io.Writer, r *ops.PlanReport) error {
	var b strings.Builder
	switch {
	case len(r.Replaces) == 0:
		b.WriteString("no present agent declares any of this\n")
	case len(r.Keeps) == 0:
		fmt.Fprintf(&b, "replaces the configuration of %s\n", strings.Join(r.Replaces, ", "))
	default:
		keep := "keep theirs"
		if len(r.Keeps) == 1 {
			keep = "keeps its own"
		}
		fmt.Fprintf(&b, "replaces the configuration of %s; %s %s\n", strings.Join(r.Replaces, ", "), strings.Join(r.Keeps, ", "), keep)
	}
	for i := range r.Changes {
		planLines(&b, &r.Changes[i])
	}
	for _, typ := range slices.Sorted(maps.Keys(r.Orphans)) {
		fmt.Fprintf(&b, "! %s of type %s would wait: no agent would declare it; add it to the aliases of another type to have them run\n",
			count(int(r.Orphans[typ]), "row"), typ)
	}
	if r.Capped {
		fmt.Fprintf(&b, "there are more rows: up to %d of each type are counted\n", store.CountedRows)
	}
	if !r.Differs() {
		b.WriteString("nothing would be different: ")
	}
	fmt.Fprintf(&b, "%s unchanged\n", count(r.Unchanged, "block"))
	_, err := io.WriteString(w, ops.Printable(b.String()))
	return err
}

// planLines writes one change.
func planLines(b *strings.Builder, c *ops.BlockChange) {
	sign := map[string]string{ops.PlanAdded: "+", ops.PlanChanged: "~", ops.PlanRemoved: "-"}[c.What]
	fmt.Fprintf(b, "%s %s %q %s", sign, c.Kind, c.Name, c.What)
	if c.Waiting > 0 || c.Running > 0 {
		fmt.Fprintf(b, "; %d waiting, %d running", c.Waiting, c.Running)
	}
	switch {
	case c.Claimed != "":
		fmt.Fprintf(b, "; %s claims its rows", c.Claimed)
	case c.What == ops.PlanRemoved && c.Kind != "task":
		b.WriteString("; parked, until it is declared again")
	case c.What == ops.PlanAdded && len(c.Also) > 0:
		fmt.Fprintf(b, "; declared by %s already", strings.Join(c.Also, ", "))
	case len(c.Also) > 0:
		fmt.Fprintf(b, "; %s has an older declaration", strings.Join(c.Also, ", "))
	}
	b.WriteByte('\n')
	fieldLines(b, c.Fields)
}

// fieldLines writes the attributes in which two definitions differ.
func fieldLines(b *strings.Builder, list []ops.FieldChange) {
	for _, f := range list {
		fmt.Fprintf(b, "    %s: %s -> %s\n", f.Name, orNone(f.Before), orNone(f.After))
	}
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}
