package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
)

// definitionsShown is how many definitions a history has where nothing else is asked for.
const definitionsShown = 20

type declarationsCmd struct {
	Name  string `arg:"" optional:"" name:"type" help:"Task type, or name of a schedule or chunk plan. Default: list what agents declare."`
	Kind  string `help:"Kind of block: ${enum}. With a TYPE, the default is task." enum:",task,schedule,chunks" default:"" placeholder:"KIND"`
	All   bool   `help:"Also blocks that no agent declares any more."`
	Limit int    `help:"With a TYPE: maximum number of definitions, 1 to 1000. Default: 20." placeholder:"N"`
}

// Help gives examples.
func (declarationsCmd) Help() string {
	return `Without a TYPE: what the configurations of running agents declare. If they declare a block differently, it is listed once for each
definition. HASH is of its attributes, FIRST LOADED is when an agent loaded it for the first time, and LAST LOADED when one last started or
reloaded with it. AGENTS is how many running agents declare it.

With a TYPE: each definition of it that an agent has ever loaded, the newest first, with the attributes in which it differs from the one
before. A definition that was replaced and came back is listed once, where it was loaded first. Secrets are not kept.

Examples:

    leasehold declarations
    leasehold declarations invoice.send
    leasehold declarations nightly --kind schedule --limit 5 -o json`
}

// Run lists definitions.
func (c declarationsCmd) Run(a *app) error {
	if c.Name == "" && c.Limit != 0 {
		return usagef("--limit needs the TYPE whose definitions to list")
	}
	if c.Name != "" && c.All {
		return usagef("--all is for the list without a TYPE")
	}
	if c.Limit < 0 || c.Limit > 1000 {
		return usagef("--limit %d: use 1 to 1000", c.Limit)
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if c.Name != "" {
			return c.history(call, a, s)
		}
		list, err := ops.Definitions(call, s, c.Kind, c.All)
		if err != nil {
			return err
		}
		return printList(a, list, table.Row{"KIND", "NAME", "HASH", "AGENTS", "FIRST LOADED", "BY", "LAST LOADED", "BY"}, definitionRow)
	})
}

// history prints the definitions of a block.
func (c declarationsCmd) history(ctx context.Context, a *app, s dataStore) error {
	kind, limit := c.Kind, c.Limit
	if kind == "" {
		kind = "task"
	}
	if limit == 0 {
		limit = definitionsShown
	}
	list, err := ops.DefinitionHistory(ctx, s, kind, c.Name, limit)
	if errors.Is(err, ops.ErrNoDeclaration) {
		return fmt.Errorf("no agent has ever declared %s %q: `leasehold declarations --all` lists what there is", kind, c.Name)
	}
	if err != nil {
		return err
	}
	if a.cli.Output != "table" {
		return printList(a, list, nil, definitionRow)
	}
	return a.people(func(w io.Writer) error { return showDefinitions(w, list) })
}

// definitionRow is a definition in a table.
func definitionRow(d ops.Definition) table.Row {
	const most = 60
	return table.Row{
		d.Kind, ops.OneLine(d.Name, most), shortHash(d.Hash), len(d.Agents), shortTime(d.FirstAt), ops.OneLine(d.FirstBy, most),
		shortTime(d.LastAt), ops.OneLine(d.LastBy, most),
	}
}

// showDefinitions writes the definitions of a block as text.
func showDefinitions(w io.Writer, list []ops.Definition) error {
	var b strings.Builder
	for i := range list {
		d := &list[i]
		if i == 0 {
			fmt.Fprintf(&b, "%s %q\n", d.Kind, d.Name)
		}
		fmt.Fprintf(&b, "\n%s: first loaded %s by %s, last %s by %s; %s\n", shortHash(d.Hash), shortTime(d.FirstAt), d.FirstBy,
			shortTime(d.LastAt), d.LastBy, declaredBy(d.Agents))
		if d.First {
			b.WriteString("    the first definition\n")
		}
		fieldLines(&b, d.Changes)
	}
	_, err := io.WriteString(w, ops.Printable(b.String()))
	return err
}

// declaredBy names the agents that declare a definition, the first few of them.
func declaredBy(agents []string) string {
	more := ""
	switch n := len(agents) - mostShown; {
	case len(agents) == 0:
		return "no running agent declares it"
	case n > 0:
		agents, more = agents[:mostShown], fmt.Sprintf(" and %d more", n)
	}
	return "declared by " + strings.Join(agents, ", ") + more
}

// shortHash is enough of a hash to compare it by.
func shortHash(hash string) string {
	const most = 12
	return hash[:min(most, len(hash))]
}
