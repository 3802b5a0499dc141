package config

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/leasehold/leasehold/internal/task"
)

// Warning is something that loads and is probably not meant, or does not fit the host on which it was loaded.
type Warning struct {
	Place string `json:"place"` // file:line
	Text  string `json:"text"`  // one or more sentences, with the remedy

	at hcl.Range
}

func (l *loader) warn(at hcl.Range, format string, args ...any) {
	l.warnings = append(l.warnings, Warning{Place: place(at), Text: fmt.Sprintf(format, args...), at: at})
}

// inOrder lists the warnings in the order of files and lines.
func (l *loader) inOrder() []Warning {
	slices.SortStableFunc(l.warnings, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(l.order[a.at.Filename], l.order[b.at.Filename]), cmp.Compare(a.at.Start.Byte, b.at.Start.Byte))
	})
	return l.warnings
}

// fallbackPath is where a command's program is looked for when the agent itself has no PATH.
const fallbackPath = "/usr/local/bin:/usr/bin:/bin"

// warnOfMissing looks for the directory and the program of a command. The agent may run elsewhere, and both may come later:
// so it is a warning.
func (b *block) warnOfMissing(c *task.Command) {
	if info, err := os.Stat(c.Dir); c.Dir != "" && (err != nil || !info.IsDir()) {
		b.l.warn(b.at("dir"), "The directory %q does not exist on this host, so commands of this block cannot start.", c.Dir)
		return
	}
	if len(c.Argv) == 0 {
		return
	}
	program, err := c.Argv[0].Template(&task.Task{})
	if err != nil || program == "" {
		return
	}
	if strings.Contains(program, "/") {
		file := program
		if !filepath.IsAbs(file) {
			file = filepath.Join(c.Dir, file)
		}
		if !executable(file) {
			b.l.warn(b.at("argv"), "The file %q does not exist on this host or is not executable, so commands of this block cannot start.", file)
		}
		return
	}
	path, ok := os.LookupEnv("PATH")
	if !ok {
		path = fallbackPath
	}
	if declared := c.Env["PATH"]; declared != nil {
		if path, err = declared(&task.Task{}); err != nil {
			return
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) && executable(filepath.Join(dir, program)) {
			return
		}
	}
	b.l.warn(b.at("argv"), "The program %q is not in PATH on this host (PATH=%s), so commands of this block cannot start.",
		program, path)
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// checkReach refuses an agent that tasks elsewhere would have to reach at 127.0.0.1, where pings or the end of a task depend
// on it, and warns where they might. at is where listen stands, or the agent block.
func (l *loader) checkReach(a Agent, at hcl.Range, tasks []*task.Type) {
	host, _, err := net.SplitHostPort(a.Listen)
	if err != nil || a.Advertise != "" || a.Workers == 0 {
		return
	}
	ip := net.ParseIP(host)
	everywhere := host == "" || ip != nil && ip.IsUnspecified()
	if !everywhere && !isLoopback(host) {
		return // it is in the ping URLs as it stands
	}
	for _, t := range tasks {
		target, needs := l.faraway(t)
		const remedy = `set the URL at which tasks reach the agent, as in agent { advertise = "http://HOST:7070" }; ` +
			`if they need not reach it, set advertise = "http://127.0.0.1:7070"`
		switch {
		case target == "":
		case everywhere && needs:
			l.fail(at, "No address for pings", "The agent listens on every interface, so ping URLs would point to 127.0.0.1, but the task %q (%s), "+
				"which pings or is async, runs on %s: %s.", t.Name, t.Source, target, remedy)
			return
		case everywhere || needs:
			l.warn(at, "Ping URLs point to 127.0.0.1, but the task %q (%s) runs on %s, which is another host: %s.",
				t.Name, t.Source, target, remedy)
			return
		}
	}
}

// faraway is the host of a task's webhook where that is another than this one; needs: its pings or its end may have to
// come by URL. A target that needs it goes before one that does not.
func (l *loader) faraway(t *task.Type) (host string, needs bool) {
	look := func(target task.Target, heartbeat time.Duration, async bool) {
		w, ok := target.(*task.Webhook)
		if !ok {
			return
		}
		h := l.hosts[w]
		if h != "" && !isLoopback(h) && (host == "" || !needs) {
			host, needs = h, heartbeat > 0 || async
		}
	}
	look(t.Target, t.Policy.Heartbeat, t.Policy.Async)
	if u := t.Policy.Rollback; u != nil {
		look(t.Rollback, u.Heartbeat, u.Async)
	}
	return host, needs
}

// isLoopback reports whether a host is this one by its name or address.
func isLoopback(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
