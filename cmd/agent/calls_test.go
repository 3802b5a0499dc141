package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	v1 "github.com/leasehold/leasehold/internal/api/v1"
)

// commandNames lists the commands below a node that do something: "task list".
func commandNames(node *kong.Node, prefix string) (names []string) {
	for _, child := range node.Children {
		name := strings.TrimSpace(prefix + " " + child.Name)
		switch {
		case child.Type != kong.CommandNode || child.Hidden:
		case len(child.Children) == 0:
			names = append(names, name)
		default:
			names = append(names, commandNames(child, name)...)
		}
	}
	return names
}

// TestCallsOfCommands compares the table of docs/api.md with the commands and with the document of the API: each command has its requests
// there, or the reason for having none, and each request is that of a command, or is said to be of none.
func TestCallsOfCommands(t *testing.T) {
	parser, err := kong.New(&cli{}, kong.Name("leasehold"), texts())
	require.NoError(t, err)
	doc, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(doc), "\n## Commands and requests\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")

	operations := operationsOf(t)
	request := regexp.MustCompile("`((?:GET|POST|DELETE) /[^`]*)`")
	var commands, met []string
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(cells[1], -1) {
			commands = append(commands, m[1])
		}
		found := request.FindAllStringSubmatch(cells[2], -1)
		require.True(t, len(found) > 0 || strings.Contains(cells[2], "none: "), "%s has neither a request nor a reason", cells[1])
		for _, m := range found {
			if m[1] != "POST /api/reload" && m[1] != "GET /-/healthy" { // beside the API
				require.Contains(t, operations, m[1], "%s", cells[1])
			}
			met = append(met, m[1])
		}
	}
	require.ElementsMatch(t, commandNames(parser.Model.Node, ""), commands)
	_, others, ok := strings.Cut(section, "No command has these requests:")
	require.True(t, ok)
	for _, m := range request.FindAllStringSubmatch(others, -1) {
		require.NotContains(t, met, m[1])
		met = append(met, m[1])
	}
	for _, op := range operations {
		require.Contains(t, met, op, "docs/api.md does not have it")
	}
}

// operationsOf lists the operations of the API's document.
func operationsOf(t *testing.T) (all []string) {
	t.Helper()
	var d struct{ Paths map[string]map[string]any }
	require.NoError(t, json.Unmarshal(v1.Document(), &d))
	for path, item := range d.Paths {
		for method := range item {
			all = append(all, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(all)
	return all
}
