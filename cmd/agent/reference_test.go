package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// commandReference is docs/commands.md: the help of every command.
type commandReference struct{ index, body strings.Builder }

const (
	referenceFile = "../../docs/commands.md"
	referenceHead = `# Commands

The help of every command, as ` + "`leasehold COMMAND --help`" + ` prints it. This page is generated: ` + "`go test ./cmd/agent -run TestHelpFits -update`" + `.
What the commands are for is in [operations](operations.md#tasks), and in the [guides](README.md#guides).

`
	everywhere = "\nEverywhere:\n" // flags that all commands have
)

// add notes the help of a command, and that of the program itself.
func (r *commandReference) add(n *kong.Node, path []string, help string) {
	own, common, _ := strings.Cut(help, everywhere)
	name := strings.Join(path, " ")
	switch {
	case len(path) == 0:
		fmt.Fprintf(&r.body, "\n## Everywhere\n\n```text\n%s\n```\n", strings.TrimRight(common, "\n"))
	case n.Leaf():
		fmt.Fprintf(&r.index, "| [`%s`](#%s) | %s |\n", name, strings.ReplaceAll(name, " ", "-"), strings.ReplaceAll(n.Help, "|", "\\|"))
		fmt.Fprintf(&r.body, "\n## %s\n\n```text\n%s\n```\n", name, strings.TrimRight(own, "\n"))
	}
}

// check compares it with the page.
func (r *commandReference) check(t *testing.T) {
	t.Helper()
	page := referenceHead + "| Command | Description |\n| --- | --- |\n" + r.index.String() + r.body.String()
	if *update {
		require.NoError(t, os.WriteFile(referenceFile, []byte(page), 0o644))
	}
	is, err := os.ReadFile(referenceFile)
	require.NoError(t, err)
	require.Equal(t, page, string(is), "docs/commands.md is not what the commands say: go test ./cmd/agent -run TestHelpFits -update")
}
