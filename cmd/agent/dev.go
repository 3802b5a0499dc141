package main

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

type devCmd struct {
	Paths []string `arg:"" optional:"" name:"path" help:"Configuration files and directories."`
}

// Help gives examples.
func (devCmd) Help() string {
	return `Like run, but always migrates the store (a SQLite file is created if it does not exist), and prints the address that it
listens on, an INSERT to try, and a line for each attempt that ends. It reloads the configuration when a file of it changes.

Examples:

    leasehold init && leasehold dev
    leasehold dev examples/ --store postgres://localhost/app`
}

// Run runs the agent, and prints how to try it.
func (c devCmd) Run(a *app) error {
	cfg, err := a.loadConfig(c.Paths)
	if err != nil {
		return err
	}
	load, inputs := a.reloaded(c.Paths), atomic.Pointer[[]string]{}
	inputs.Store(&cfg.Inputs)
	changes, unwatch := watch(a.configPaths(c.Paths), func() []string { return *inputs.Load() })
	defer unwatch()
	how := reloading{changes: changes, load: func() (*config.Config, error) {
		cfg, err := load()
		if err == nil {
			inputs.Store(&cfg.Inputs)
		}
		return cfg, err
	}}
	return a.runAgent(cfg, how, true, func(running *agent, p place) error {
		running.ended = a.printEnd
		_, err := fmt.Fprint(a.out, welcome(cfg, p, api.Address(running.listener), a.selection(c.Paths, p)))
		return err
	})
}

// printEnd writes a line for an attempt that has ended: task, type, outcome, how long it took, and why.
func (a *app) printEnd(row *task.Task, out task.Outcome, next task.Transition, took time.Duration) {
	// A terminal that is gone takes no lines, and is no reason to stop.
	_, _ = fmt.Fprintln(a.out, endLine(row, out, next, took, a.tableWidth()))
}

// endLine is that line, at most width columns wide; 0: as wide as it is.
func endLine(row *task.Task, out task.Outcome, next task.Transition, took time.Duration, width int) string {
	const mostType, mostReason = 40, 200
	line := fmt.Sprintf("task %d  %s  %s", row.ID, ops.OneLine(row.Type, mostType), out.Verdict)
	if row.Phase() == task.Rollback {
		line = fmt.Sprintf("task %d  %s  rollback %s", row.ID, ops.OneLine(row.Type, mostType), out.Verdict)
	}
	if out.InCheck {
		line += " in its check"
	}
	if took >= 0 {
		line += "  " + ops.Duration(took)
	}
	switch {
	case next.State.Phase() == task.Rollback && row.Phase() == task.Run:
		line += "  is rolled back"
	case next.State.Waiting():
		line += "  again " + again(out.Verdict, next.Delay)
	}
	if out.Error != "" {
		line += "  " + ops.OneLine(ops.Cause(out.Error), mostReason)
	}
	if width > 0 {
		line = text.Snip(line, width, "…")
	}
	return line
}

// again writes when the next attempt comes. What was not delivered is due at once, but its target is tried again after a pause only; what an agent
// has stopped waits for the next free agent.
func again(verdict task.Verdict, delay time.Duration) string {
	switch {
	case delay >= time.Millisecond:
		return "in " + ops.Duration(delay)
	case verdict == task.Undelivered:
		return "after a pause"
	case verdict == task.Drained:
		return "soon"
	}
	return "at once"
}

// selection is the flags with which a command in another terminal, in this directory, finds the same store.
func (a *app) selection(args []string, p place) string {
	var flags strings.Builder
	for _, path := range a.configPaths(args) {
		flags.WriteString(" --config " + ops.ShellQuote(path))
	}
	if a.cli.Store != "" {
		flags.WriteString(" --store " + ops.ShellQuote(p.String()))
	}
	return flags.String()
}

// welcome is what dev prints: where everything is, and what to paste.
func welcome(cfg *config.Config, p place, address, selection string) string {
	names := make([]string, 0, len(cfg.Tasks))
	for _, t := range cfg.Tasks {
		names = append(names, ops.OneLine(t.Name, 60))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "leasehold runs: %s\n\n", cmp.Or(strings.Join(names, ", "), "no task types are declared"))
	fmt.Fprintf(&b, "  store      %s\n", p)
	fmt.Fprintf(&b, "  dashboard  %s   (API, health and metrics too)\n", address)
	if len(cfg.Tasks) > 0 {
		name := cfg.Tasks[0].Name
		sample, payload := string(cfg.Sample(name)), ""
		if sample != "{}" {
			payload = " --payload " + ops.ShellQuote(sample)
		}
		fmt.Fprintf(&b, "  enqueue    leasehold enqueue %s%s --wait%s\n", ops.ShellQuote(name), payload, selection)
		fmt.Fprintf(&b, "  or paste   %s\n", p.insertLine(name, sample))
	}
	b.WriteByte('\n')
	return b.String()
}

// String shows the place without its password.
func (p place) String() string {
	if p.embedded() {
		return "sqlite:" + absolute(p.path)
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return "postgres" // it opened, so this is not reached; an odd URL is no reason to show a password
	}
	if strings.Contains(u.Path, "@") { // a password with "/" and "@" that are not escaped: part of it is taken for the path
		return u.Scheme + "://" + u.User.Username() + "@"
	}
	if _, has := u.User.Password(); has {
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	query.Del("password")
	query.Del("sslpassword")
	u.RawQuery = query.Encode()
	return u.String()
}

// insertLine is a shell command that enqueues a task by plain SQL. psql asks for the password.
func (p place) insertLine(typ, payload string) string {
	literal := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	values := literal(typ) + ", " + literal(payload)
	if p.embedded() {
		insert := fmt.Sprintf("INSERT INTO task (type, payload) VALUES (%s) RETURNING id;", values)
		return "sqlite3 " + ops.ShellQuote(absolute(p.path)) + " " + ops.ShellQuote(insert)
	}
	schema := p.Schema
	if schema == "" {
		schema = "leasehold"
	}
	insert := fmt.Sprintf("INSERT INTO %s.task (type, payload) VALUES (%s) RETURNING id;", sqlName(schema), values)
	return "psql " + ops.ShellQuote(p.String()) + " -c " + ops.ShellQuote(insert)
}

// sqlName quotes a name where SQL asks for it.
func sqlName(s string) string {
	for i, r := range s {
		if r != '_' && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
		}
	}
	return s
}

// absolute is the path from the root, for commands that are pasted elsewhere.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
