package main

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// The scripts hand what has been typed to `leasehold complete`, so they do not change with the commands.
var (
	//go:embed completion/leasehold.bash
	completeBash string
	//go:embed completion/leasehold.zsh
	completeZsh string
	//go:embed completion/leasehold.fish
	completeFish string
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: ${enum}."`
}

// Help gives examples.
func (completionCmd) Help() string {
	return `Prints a script that completes commands, flags and the declared task types.

Examples:

    source <(leasehold completion bash)                       # in ~/.bashrc
    source <(leasehold completion zsh)                        # in ~/.zshrc, after compinit
    leasehold completion fish > ~/.config/fish/completions/leasehold.fish`
}

// Run prints the script.
func (c completionCmd) Run(a *app) error {
	script := map[string]string{"bash": completeBash, "zsh": completeZsh, "fish": completeFish}[c.Shell]
	_, err := io.WriteString(a.out, script)
	return err
}

type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints what the last of the words may become: one candidate a line, with its description behind a tab.
func (c completeCmd) Run(a *app, k *kong.Context) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, candidate := range a.candidates(k.Model.Node, words) {
		if _, err := fmt.Fprintln(a.out, candidate); err != nil {
			return err
		}
	}
	return nil
}

// candidates are what the last word may become, after those before it. None: the shell offers files.
func (a *app) candidates(node *kong.Node, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	// bash makes --flag=value three words.
	if words[len(words)-1] == "=" {
		words = append(slices.Clone(words), "")
	}
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "=" })
	typed := words[len(words)-1]
	var value *kong.Flag // that the next word belongs to
	var values []string  // of arguments
	for _, w := range words[:len(words)-1] {
		switch child := subcommand(node, w); {
		case value != nil:
			if value.Name == "config" { // the types that are completed are its
				a.cli.Config = append(a.cli.Config, w)
			}
			value = nil
		case strings.HasPrefix(w, "-"):
			if f := flagOf(node, w); f != nil && !f.IsBool() && !f.IsCounter() && !strings.Contains(w, "=") {
				value = f
			}
		case child != nil:
			node = child
		default:
			values = append(values, w)
		}
	}
	var all []string
	prefix := ""
	switch name, rest, assigned := strings.Cut(typed, "="); {
	case value != nil:
		all = enum(value.Value)
	case assigned && strings.HasPrefix(typed, "--"):
		prefix, typed = name+"=", rest
		if f := flagOf(node, name); f != nil {
			all = enum(f.Value)
		}
	case strings.HasPrefix(typed, "-"):
		all = flags(node)
	default:
		all = a.arguments(node, len(values))
	}
	var out []string
	for _, c := range all {
		if strings.HasPrefix(c, typed) {
			out = append(out, prefix+c)
		}
	}
	return out
}

// subcommand is a node's command of that name; nil: it has none.
func subcommand(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Type == kong.CommandNode && !child.Hidden && child.Name == name {
			return child
		}
	}
	return nil
}

// flagOf is the flag that a word names; nil: there is none.
func flagOf(node *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			if f.Name == name && strings.HasPrefix(word, "--") || len(name) == 1 && string(f.Short) == name {
				return f
			}
		}
	}
	return nil
}

func flags(node *kong.Node) []string {
	var out []string
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			out = append(out, "--"+f.Name+"\t"+f.Help)
		}
	}
	return out
}

// enum is what a value may be, where that is a list.
func enum(v *kong.Value) []string {
	if v.Name == "state" {
		var states []string
		for _, s := range task.States() {
			states = append(states, string(s))
		}
		return states
	}
	if v.Enum == "" {
		return nil
	}
	return v.EnumSlice()
}

// arguments are a node's commands, or what its next argument may be.
func (a *app) arguments(node *kong.Node, n int) []string {
	var out []string
	for _, child := range node.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			out = append(out, child.Name+"\t"+child.Help)
		}
	}
	if n >= len(node.Positional) {
		return out
	}
	next := node.Positional[n]
	out = append(out, enum(next)...)
	if next.Name == "type" { // of what is declared, where that can be read
		if cfg, err := config.Load(a.configPaths(nil), config.Options{}); err == nil {
			for _, t := range cfg.Tasks {
				out = append(out, ops.OneLine(t.Name, 200))
			}
		}
	}
	return out
}
