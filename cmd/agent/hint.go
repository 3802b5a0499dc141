package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// foreignFlag returns the flag that has the meaning of a well-known name of other job queues and tools; "": there is none.
func foreignFlag(name string) string {
	switch name {
	case "delay", "countdown", "perform-in", "wait-for":
		return "in"
	case "at", "eta", "perform-at", "schedule", "scheduled-at", "wait-until":
		return "run-at"
	case "args", "body", "data":
		return "payload"
	case "idempotency-key", "job-key", "unique-key":
		return "key"
	case "attempts", "max-retries", "retries":
		return "max-attempts"
	case "tag", "tags":
		return "label"
	case "depends-on", "dependency":
		return "after"
	case "mutex":
		return "lock"
	case "database", "database-url", "db", "dsn", "url":
		return "store"
	case "config-file":
		return "config"
	case "format":
		return "output"
	}
	return ""
}

// hintFlag adds to the text of a mistake which flag of the command is meant by one that only others have.
func hintFlag(text string, command *kong.Node) string {
	unknown, found := strings.CutPrefix(text, "unknown flag --")
	if !found {
		return text
	}
	unknown, _, _ = strings.Cut(unknown, ",") // kong may know a flag that is spelled nearly like that
	meant := foreignFlag(unknown)
	for _, flags := range command.AllFlags(true) {
		if slices.ContainsFunc(flags, func(f *kong.Flag) bool { return f.Name == meant }) {
			return fmt.Sprintf("unknown flag --%s, did you mean \"--%s\"?", unknown, meant)
		}
	}
	return text
}

// hintCommand adds to the text of a mistake which command is meant by an argument that is none: the one of that name in a group, as task why,
// or the one that shows what has that number.
func hintCommand(text string, command *kong.Node) string {
	unknown, found := strings.CutPrefix(text, "unexpected argument ")
	if !found {
		return text
	}
	unknown, _, _ = strings.Cut(unknown, ",") // kong may know a command that is spelled nearly like that
	meant := ""
	if _, err := strconv.ParseUint(unknown, 10, 63); err == nil && child(command, "show") != nil {
		meant = "show " + unknown
	}
	for _, group := range command.Children {
		if c := child(group, unknown); c != nil && meant == "" {
			meant = group.Name + " " + unknown
		}
	}
	if meant == "" {
		return text
	}
	return fmt.Sprintf("unexpected argument %s, did you mean %q?", unknown, meant)
}

// child returns the command of that name in a group; nil: there is none that help shows.
func child(group *kong.Node, name string) *kong.Node {
	i := slices.IndexFunc(group.Children, func(c *kong.Node) bool { return !c.Hidden && c.Name == name })
	if i < 0 {
		return nil
	}
	return group.Children[i]
}
