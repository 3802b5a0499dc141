package main

import (
	_ "embed"
	"fmt"
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

    source <(leasehold completion bash)               # in ~/.bashrc
    source <(leasehold completion zsh)                # in ~/.zshrc
    leasehold completion fish > ~/.config/fish/completions/leasehold.fish`
}

// Run prints the script.
func (c completionCmd) Run(a *app) error {
	script := map[string]string{"bash": completeBash, "zsh": completeZsh, "fish": completeFish}[c.Shell]
	_, err := a.out.WriteString(script)
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
func (a *app) candidates(root *kong.Node, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	if words[len(words)-1] == "=" {
		words = append(slices.Clone(words), "")
	}
	// bash makes --flag=value three words.
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "=" })
	typed := words[len(words)-1]
	at := a.walk(root, words[:len(words)-1])
	var all []string
	prefix := ""
	switch name, rest, assigned := strings.Cut(typed, "="); {
	case at.flag != nil:
		all = enum(at.flag.Value)
	case assigned && strings.HasPrefix(typed, "--"):
		prefix, typed = name+"=", rest
		if f := flagOf(at.node, name); f != nil {
			all = enum(f.Value)
		}
	case strings.HasPrefix(typed, "-"):
		all = flags(at.node)
	default:
		all = a.arguments(at.node, at.values)
	}
	var out []string
	for _, c := range all {
		if strings.HasPrefix(c, typed) {
			out = append(out, prefix+c)
		}
	}
	return out
}

// typedSoFar is where the words of a command line have led.
type typedSoFar struct {
	node   *kong.Node
	flag   *kong.Flag // that the next word is the value of; nil: of none
	values int        // arguments of the node
}

// walk follows whole words.
func (a *app) walk(root *kong.Node, words []string) typedSoFar {
	at := typedSoFar{node: root}
	for _, w := range words {
		switch child := subcommand(at.node, w); {
		case at.flag != nil:
			if at.flag.Name == "config" { // the types that are completed are its
				a.cli.Config = append(a.cli.Config, w)
			}
			at.flag = nil
		case strings.HasPrefix(w, "-"):
			if f := flagOf(at.node, w); f != nil && !f.IsBool() && !f.IsCounter() && !strings.Contains(w, "=") {
				at.flag = f
			}
		case child != nil:
			at.node = child
		default:
			at.values++
		}
	}
	return at
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
