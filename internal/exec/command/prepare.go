package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/internal/exec/envelope"
	"github.com/leasehold/leasehold/internal/task"
)

// inherited lists the variables of the agent's own environment that a task gets. All else, the agent's database address
// above all, it does not.
func inherited() []string { return []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"} }

// fallbackPath is where programs are looked for when the agent itself has no PATH.
const fallbackPath = "/usr/local/bin:/usr/bin:/bin"

// rowError is a mistake that the row's data made: no other attempt will end better.
type rowError struct{ err error }

func (e *rowError) Error() string { return e.err.Error() }
func (e *rowError) Unwrap() error { return e.err }

// prepare fills in the row. Its errors are a *rowError, or say why the command cannot start at all.
func prepare(e *envelope.Envelope, t *task.Type, c *task.Command) (*call, error) {
	k := &call{dir: c.Dir, source: t.Source}
	var err error
	if k.input, err = e.JSON(); err != nil {
		return nil, &rowError{err}
	}
	k.input = append(k.input, '\n') // so that a shell's read sees a whole line
	if k.argv, err = arguments(e.Task, t, c); err != nil {
		return nil, &rowError{err}
	}
	declared, err := declaredEnv(e.Task, t, c)
	if err != nil {
		return nil, &rowError{err}
	}
	home := ""
	if c.User != "" {
		if k.credential, home, err = credentialOf(c.User); err != nil {
			return nil, fmt.Errorf("%s: user = %q: %w", t.Source, c.User, err)
		}
	}
	k.env = environment(e, declared, home)
	k.path, err = lookUp(k.argv[0], k.env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Source, err)
	}
	return k, nil
}

// arguments evaluates argv. What a row's data makes of an argument may not turn into an option.
func arguments(row *task.Task, t *task.Type, c *task.Command) ([]string, error) {
	argv := make([]string, len(c.Argv))
	for i, a := range c.Argv {
		text, err := a.Template(row)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(text, "-") && !a.Dash {
			return nil, fmt.Errorf("%s: argv[%d]: row data makes it start with \"-\", which the program would treat as an option: "+
				"begin the template with other text, or with \"-\" itself", t.Source, i)
		}
		if strings.Contains(text, "\x00") {
			return nil, fmt.Errorf("%s: argv[%d]: row data contains a NUL byte", t.Source, i)
		}
		argv[i] = text
	}
	return argv, nil
}

func declaredEnv(row *task.Task, t *task.Type, c *task.Command) (map[string]string, error) {
	env := make(map[string]string, len(c.Env))
	for name, template := range c.Env {
		text, err := template(row)
		if err != nil {
			return nil, err
		}
		if strings.Contains(text, "\x00") {
			return nil, fmt.Errorf("%s: env.%s: row data contains a NUL byte", t.Source, name)
		}
		env[name] = text
	}
	return env, nil
}

// environment is the whole environment but for what each attempt has of its own (the result file, the notify socket):
// what is inherited, what is declared over it, and the protocol's own, which nothing replaces.
func environment(e *envelope.Envelope, declared map[string]string, home string) []string {
	env := fixedEnvironment(declared, home)
	row := e.Task
	if e.PingURL != "" {
		env = append(env, "LEASEHOLD_PING_URL="+e.PingURL)
	}
	if e.Heartbeat > 0 {
		env = append(env, "WATCHDOG_USEC="+strconv.FormatInt(e.Heartbeat.Microseconds(), 10))
	}
	return append(env,
		"LEASEHOLD_TASK_ID="+strconv.FormatInt(int64(row.ID), 10),
		"LEASEHOLD_TYPE="+e.Type,
		"LEASEHOLD_PHASE="+string(e.Phase),
		"LEASEHOLD_ATTEMPT="+strconv.Itoa(row.Attempt),
		"LEASEHOLD_FENCE="+strconv.FormatInt(int64(row.Fence), 10),
		"LEASEHOLD_DEADLINE="+envelope.Time(e.Deadline),
		"TRACEPARENT="+e.Traceparent(),
	)
}

// fixedEnvironment is the part of the environment that no attempt changes: what is inherited, and what is declared over it.
func fixedEnvironment(declared map[string]string, home string) []string {
	env := make([]string, 0, len(declared)+20)
	for _, name := range inherited() {
		value, ok := os.LookupEnv(name)
		if name == "HOME" && home != "" {
			value, ok = home, true
		}
		if name == "PATH" && !ok {
			value, ok = fallbackPath, true
		}
		if _, replaced := declared[name]; ok && !replaced {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range declared {
		if !protocols(name) {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// protocols reports whether a variable is the protocol's own. WATCHDOG_PID is left unset, so that what a wrapper starts
// may ping, too (sd_watchdog_enabled(3)).
func protocols(name string) bool {
	switch name {
	case "TRACEPARENT", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID":
		return true
	}
	return strings.HasPrefix(name, "LEASEHOLD_")
}

// lookUp finds a program in the PATH that it will itself see. One with a slash is left to the kernel, which takes it
// relative to the command's directory.
func lookUp(program string, env []string) (string, error) {
	if program == "" {
		return "", errors.New("argv[0] is empty")
	}
	if strings.Contains(program, "/") {
		return program, nil
	}
	path := ""
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	denied := false
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // whatever "here" is, it is not what was declared
		}
		file := filepath.Join(dir, program)
		info, err := os.Stat(file)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return file, nil
		}
		denied = true
	}
	if denied {
		return "", fmt.Errorf("%q is in PATH but not executable (PATH=%s)", program, path)
	}
	return "", fmt.Errorf("%q is not in PATH (PATH=%s)", program, path)
}
