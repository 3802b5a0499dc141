package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/leasehold/leasehold/internal/task"
)

func commandShape() *shape {
	return &shape{
		name:   "command",
		attrs:  []string{"argv", "dir", "env", "user", "exit_codes", "stop_signal", "stop_grace"},
		blocks: []string{"worker"},
		called: calledInCommand(),
	}
}

// command decodes a command block; workers is how many attempts of its type may run at once, 0: that is not known.
func (b *block) command(workers int) *task.Command {
	c := &task.Command{Argv: b.argv(), Dir: b.dir()}
	c.Env = b.templates(commandEnv(b.child("worker") != nil))
	c.User = b.optional("user", checkUser)
	c.ExitCodes = b.exitCodes()
	c.StopSignal = b.stopSignal()
	c.StopGrace = b.length("stop_grace", task.DefaultGrace, 0, maxGrace)
	c.Worker = b.worker(workers)
	b.warnOfMissing(c)
	return c
}

// argv compiles the arguments. The program is fixed: a row does not choose what runs.
func (b *block) argv() []task.Argument {
	const example = `argv = ["python3", "resize.py", "${task.data.file}"]`
	a := b.attr("argv")
	if a == nil {
		b.l.fail(b.rng, "Missing argv", "A command needs argv, as in %s.", example)
		return nil
	}
	list, ok := unwrap(a.Expr).(*hclsyntax.TupleConsExpr)
	if !ok {
		b.invalid("argv", a.Expr.Range(),
			errors.New("it must be a list of strings, as in "+example+"; no shell is used unless you name one"))
		return nil
	}
	if len(list.Exprs) == 0 {
		b.invalid("argv", a.Expr.Range(), errors.New("it is empty; the first item is the program"))
		return nil
	}
	var (
		out   []task.Argument
		items []string
		words []word
	)
	for i, e := range list.Exprs {
		secret := i > 0 && len(words) == i && hidesNext(words[0].text, words[i-1].text, b.unquoted(e))
		b.hide(e, secret)
		t, c, ok := b.rowString("argv", e, maxArgument, noNUL)
		if !ok {
			continue
		}
		switch {
		case i > 0 && !t.isFixed() && b.child("worker") != nil:
			b.invalid("argv", e.Range(), errWorkerRow)
		case i > 0:
		case !t.isFixed():
			b.invalid("argv", e.Range(), errors.New("the program must be fixed text; a row cannot choose it"))
		case t.prefix() == "":
			b.invalid("argv", e.Range(), errors.New("the first item, the program, is empty"))
		}
		out = append(out, task.Argument{Template: t.compile(maxArgument, noNUL), Dash: strings.HasPrefix(t.prefix(), "-")})
		name := "argv"
		if secret {
			name = "secret"
		}
		items = append(items, b.templateSource(e, c, t, name))
		words = append(words, word{t.prefix(), !t.isFixed(), e.Range()})
	}
	refuseProgramText(words, func(at hcl.Range, err error) { b.invalid("argv", at, err) })
	b.out.add("argv", listOf(items))
	return out
}

// unquoted is the source of an expression without the quotes around it.
func (b *block) unquoted(e hclsyntax.Expression) string { return strings.Trim(b.text(e.Range()), `"`) }

// noNUL refuses what the system cannot pass to a process.
func noNUL(s string) error {
	if strings.ContainsRune(s, 0) {
		return errors.New("it contains a NUL byte")
	}
	return nil
}

// dir reads the working directory, by default that of the file.
func (b *block) dir() string {
	g := b.get("dir", cty.String)
	if !g.ok {
		b.out.add("dir", quote(b.src.dir))
		return b.src.dir
	}
	path := g.v.AsString()
	if path == "" || noNUL(path) != nil {
		b.invalid("dir", g.expr.Range(), errors.New("it must be the path of a directory; leave it out for the directory of the file"))
	}
	out := resolve(b.src.dir, path)
	shown := quote(out)
	if len(g.calls) > 0 {
		var changed bool
		if shown, changed = b.anchored(g.expr, path); !changed {
			shown = b.source(g.expr, g.checked, nil)
		}
	}
	b.out.add("dir", shown)
	return out
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkVariable(name string) error {
	switch {
	case !variableName.MatchString(name):
		return fmt.Errorf("%q is not a valid name of a variable: use letters, digits and _", name)
	case strings.HasPrefix(name, "LEASEHOLD_"),
		slices.Contains([]string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "TRACEPARENT"}, name):
		return fmt.Errorf("%s is set by the agent and cannot be declared", name)
	}
	return nil
}

// commandEnv is what env holds, of a command or, with worker, of one with a worker block.
func commandEnv(worker bool) rowStrings {
	checkRow := checkRowVariable
	if worker {
		checkRow = func(string) error { return errWorkerRow }
	}
	return rowStrings{
		name: "env", limit: maxArgument, checkKey: checkVariable, checkValue: noNUL,
		same: func(s string) string { return s }, checkRow: checkRow,
	}
}

// checkRowVariable refuses row data in a variable that decides what runs.
func checkRowVariable(name string) error {
	if !choosesPrograms(name) {
		return nil
	}
	return fmt.Errorf("%s decides which programs run or load, so row data must not set it%s; or use a variable with another name",
		name, safeWay)
}

func checkUser(name string) error {
	if name == "" || noNUL(name) != nil {
		return errors.New("it must be the name of a user; leave it out for the agent's user")
	}
	return nil
}

// exitCodes reads what exit statuses mean beyond the table in docs/protocol.md.
func (b *block) exitCodes() map[int]task.Verdict {
	allowed := words([]task.Verdict{task.Succeeded, task.Failed, task.Rejected, task.Deferred})
	g := b.get("exit_codes", cty.Map(cty.String))
	out := map[int]task.Verdict{}
	var items [][2]string
	if g.ok {
		codes := g.v.AsValueMap()
		for _, code := range slices.Sorted(maps.Keys(codes)) {
			v := codes[code]
			n, err := strconv.Atoi(code)
			switch {
			case err != nil || n < 1 || n > 255 || strconv.Itoa(n) != code:
				err = fmt.Errorf("%q is not an exit status from 1 to 255 (0 always means succeeded)", code)
			case v.IsNull() || !slices.Contains(allowed, v.AsString()):
				err = fmt.Errorf("%d must be mapped to one of %s", n, oneOf(allowed))
			}
			if err != nil {
				b.invalid("exit_codes", g.expr.Range(), err)
				continue
			}
			out[n] = task.Verdict(v.AsString())
		}
		for _, n := range slices.Sorted(maps.Keys(out)) {
			items = append(items, [2]string{strconv.Itoa(n), quote(string(out[n]))})
		}
	}
	b.print("exit_codes", g, mapOf(items))
	return out
}

// signals are those that a stop may begin with. All systems that an agent runs on have them.
func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "HUP": syscall.SIGHUP,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "ABRT": syscall.SIGABRT, "KILL": syscall.SIGKILL,
	}
}

func (b *block) stopSignal() syscall.Signal {
	all := signals()
	name := b.str("stop_signal", "TERM", func(s string) error {
		if _, ok := all[strings.TrimPrefix(s, "SIG")]; ok {
			return nil
		}
		return notOneOf(s, slices.Sorted(maps.Keys(all)))
	})
	return all[strings.TrimPrefix(name, "SIG")]
}
