package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// helperVariable makes the test binary play a part of a test in another process.
const helperVariable = "LEASEHOLD_TEST_HELPER"

func TestMain(m *testing.M) {
	if playsPart() {
		return
	}
	switch os.Getenv(helperVariable) {
	case "zombie":
		zombie()
		return
	case "notify":
		notify(os.Args[1:])
		return
	}
	goleak.VerifyTestMain(m)
}

// zombie starts a process group, reports it, and does not reap it until its input ends.
func zombie() {
	child := exec.CommandContext(context.Background(), "true")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		panic(err)
	}
	fmt.Println(child.Process.Pid)
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = child.Wait()
}

// argv declares an argument list that is the same for every row.
func argv(args ...string) []task.Argument {
	list := make([]task.Argument, len(args))
	for i, a := range args {
		list[i] = task.Argument{Template: exectest.Text(a), Dash: strings.HasPrefix(a, "-")}
	}
	return list
}

// shell declares a script.
func shell(script string) *task.Command {
	return &task.Command{
		Argv: argv("sh", "-c", script), Dir: "/",
		StopSignal: syscall.SIGTERM, StopGrace: 10 * time.Second,
	}
}

func declared(c *task.Command) *task.Type {
	return &task.Type{Name: "video.resize", Target: c, Source: "tasks.hcl:3"}
}

// run runs one attempt to its end, with a private TMPDIR in which nothing may be left.
func run(t *testing.T, a exectest.Attempt, c *task.Command) task.Outcome {
	t.Helper()
	l := a.Lease()
	defer l.Close()
	return runLease(t, l, c)
}

func runLease(t *testing.T, l *lease.Lease, c *task.Command) task.Outcome {
	t.Helper()
	//nolint:usetesting // t.TempDir is closed to other users, whose commands pass through it
	temp, err := os.MkdirTemp("/tmp", "command-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(temp)) })
	require.NoError(t, os.Chmod(temp, 0o755))
	t.Setenv("TMPDIR", temp)
	r := New(Options{Log: slog.New(slog.DiscardHandler)})
	o := r.Run(l, declared(c), c, func() {})
	r.Close()
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left, "the private directory is removed")
	return o
}

// killedSoon is what becomes of a command that is killed when it has hardly begun, by an unknown process.
var killedSoon = task.Outcome{
	Verdict: task.Drained, Brief: true,
	Error: "killed by SIGKILL within moments of the attempt's start, by something that the agent does not know of",
}

func TestExitTable(t *testing.T) {
	reject := map[int]task.Verdict{42: task.Rejected, 75: task.Failed, 64: task.Succeeded, 9: task.Deferred}
	for name, c := range map[string]struct {
		script string
		codes  map[int]task.Verdict
		want   task.Outcome
	}{
		"0":            {"true", nil, task.Outcome{Verdict: task.Succeeded}},
		"0 and output": {"echo out; echo err >&2", nil, task.Outcome{Verdict: task.Succeeded, Output: "out\nerr\n"}},
		"0 and JSON":   {`echo '{"a": 1}' > $LEASEHOLD_RESULT_FILE`, nil, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`{"a": 1}`)}},
		"0 and text":   {`echo done > $LEASEHOLD_RESULT_FILE`, nil, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`"done\n"`)}},
		"0 and empty":  {`: > $LEASEHOLD_RESULT_FILE`, nil, task.Outcome{Verdict: task.Succeeded}},
		"1":            {"exit 1", nil, task.Outcome{Verdict: task.Failed, Error: "exit code 1"}},
		"1 and why":    {"echo first; echo 'no such video' >&2; exit 1", nil, task.Outcome{Verdict: task.Failed, Error: "exit code 1: no such video", Output: "first\nno such video\n"}},
		"1 and a trace": {"printf 'PHP Fatal error:  Uncaught RuntimeException: no such video in /srv/job.php:5\\nStack trace:\\n#0 {main}\\n  thrown in /srv/job.php on line 5\\n'; exit 255", nil, task.Outcome{
			Verdict: task.Failed, Error: "exit code 255: RuntimeException: no such video in /srv/job.php:5",
			Output: "PHP Fatal error:  Uncaught RuntimeException: no such video in /srv/job.php:5\nStack trace:\n#0 {main}\n  thrown in /srv/job.php on line 5\n",
		}},
		"1 and result":       {`echo 1 > $LEASEHOLD_RESULT_FILE; exit 1`, nil, task.Outcome{Verdict: task.Failed, Error: "exit code 1"}},
		"42":                 {"exit 42", nil, task.Outcome{Verdict: task.Failed, Error: "exit code 42"}},
		"42 declared":        {"exit 42", reject, task.Outcome{Verdict: task.Rejected, Error: "exit code 42"}},
		"64":                 {"exit 64", nil, task.Outcome{Verdict: task.Rejected, Error: "exit code 64"}},
		"64 declared":        {"exit 64", reject, task.Outcome{Verdict: task.Succeeded}},
		"65":                 {"exit 65", nil, task.Outcome{Verdict: task.Rejected, Error: "exit code 65"}},
		"75":                 {"exit 75", nil, task.Outcome{Verdict: task.Deferred, Error: "exit code 75"}},
		"75 and when":        {`echo '{"retry_after_s": 1.5}' > $LEASEHOLD_RESULT_FILE; exit 75`, nil, task.Outcome{Verdict: task.Deferred, Error: "exit code 75", RetryAfter: 1500 * time.Millisecond}},
		"75 and never":       {`echo '{"retry_after_s": 1e30}' > $LEASEHOLD_RESULT_FILE; exit 75`, nil, task.Outcome{Verdict: task.Deferred, Error: "exit code 75", RetryAfter: 24 * time.Hour}},
		"75 and nonsense":    {`echo '{"retry_after_s": "soon"}' > $LEASEHOLD_RESULT_FILE; exit 75`, nil, task.Outcome{Verdict: task.Deferred, Error: "exit code 75"}},
		"75 declared":        {`echo '{"retry_after_s": 3}' > $LEASEHOLD_RESULT_FILE; exit 75`, reject, task.Outcome{Verdict: task.Failed, Error: "exit code 75"}},
		"9 declared":         {`echo '{"retry_after_s": 3}' > $LEASEHOLD_RESULT_FILE; exit 9`, reject, task.Outcome{Verdict: task.Deferred, Error: "exit code 9", RetryAfter: 3 * time.Second}},
		"137 is not KILL":    {"exit 137", nil, task.Outcome{Verdict: task.Failed, Error: "exit code 137"}},
		"killed by SEGV":     {"kill -SEGV $$", nil, task.Outcome{Verdict: task.Failed, Error: "killed by SIGSEGV"}},
		"killed by KILL":     {"kill -KILL $$", nil, killedSoon},
		"and it had said so": {"echo bye; kill -KILL $$", nil, task.Outcome{Verdict: task.Drained, Brief: true, Error: killedSoon.Error + ": bye", Output: "bye\n"}},
		"killed later":       {"sleep 1.1; kill -KILL $$", nil, task.Outcome{Verdict: task.Failed, Error: "killed by SIGKILL"}},
		"killed by TERM":     {"echo bye; kill -TERM $$", nil, task.Outcome{Verdict: task.Failed, Error: "killed by SIGTERM: bye", Output: "bye\n"}},
		"its own group dies": {"kill -KILL 0", nil, killedSoon},
	} {
		t.Run(name, func(t *testing.T) {
			command := shell(c.script)
			command.ExitCodes = c.codes
			require.Equal(t, c.want, run(t, exectest.Attempt{}, command))
		})
	}
}

func TestCannotStart(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600))
	binary := filepath.Join(dir, "binary")
	require.NoError(t, os.WriteFile(binary, []byte{0x7f, 'E', 'L', 'F', 0, 0}, 0o700))
	row := func(s string) task.Template { return func(*task.Task) (string, error) { return s, nil } }
	broken := func(*task.Task) (string, error) {
		return "", &os.PathError{Op: "tasks.hcl:7", Path: "no field file", Err: os.ErrInvalid}
	}
	for name, c := range map[string]struct {
		change  func(*task.Command)
		verdict task.Verdict
		says    string
	}{
		"not in PATH":    {func(c *task.Command) { c.Argv = argv("no-such-program") }, task.Undelivered, `tasks.hcl:3: "no-such-program" is not in PATH`},
		"not there":      {func(c *task.Command) { c.Argv = argv("./no-such-program") }, task.Undelivered, "tasks.hcl:3: start ./no-such-program: no such file"},
		"not executable": {func(c *task.Command) { c.Argv = argv(plain) }, task.Undelivered, "permission denied"},
		"denied in PATH": {func(c *task.Command) {
			c.Argv, c.Env = argv("plain"), map[string]task.Template{"PATH": row(dir)}
		}, task.Undelivered, "not executable"},
		"not a program":       {func(c *task.Command) { c.Argv = argv(binary) }, task.Undelivered, "exec format error"},
		"no directory":        {func(c *task.Command) { c.Dir = filepath.Join(dir, "none") }, task.Undelivered, "is not a directory"},
		"a file as directory": {func(c *task.Command) { c.Dir = plain }, task.Undelivered, "is not a directory"},
		"no user":             {func(c *task.Command) { c.User = "no-such-user" }, task.Undelivered, `user = "no-such-user"`},
		"empty program":       {func(c *task.Command) { c.Argv = argv("") }, task.Undelivered, "argv[0] is empty"},
		"template":            {func(c *task.Command) { c.Argv = append(c.Argv, task.Argument{Template: broken}) }, task.Rejected, "tasks.hcl:7"},
		"template of env":     {func(c *task.Command) { c.Env = map[string]task.Template{"A": broken} }, task.Rejected, "tasks.hcl:7"},
		"option from data":    {func(c *task.Command) { c.Argv = append(c.Argv, task.Argument{Template: row("--rm")}) }, task.Rejected, "tasks.hcl:3: argv[3]"},
		"NUL":                 {func(c *task.Command) { c.Argv = append(c.Argv, task.Argument{Template: row("a\x00b")}) }, task.Rejected, "tasks.hcl:3: argv[3]"},
		"NUL in env":          {func(c *task.Command) { c.Env = map[string]task.Template{"A": row("a\x00b")} }, task.Rejected, "tasks.hcl:3: env.A"},
		"too long": {func(c *task.Command) {
			c.Argv = append(c.Argv, task.Argument{Template: row(strings.Repeat("a", 8<<20))})
		}, task.Rejected, "tasks.hcl:3: argv and env are too long"},
	} {
		t.Run(name, func(t *testing.T) {
			command := shell("echo started > /dev/null")
			c.change(command)
			o := run(t, exectest.Attempt{}, command)
			require.Equal(t, c.verdict, o.Verdict, o.Error)
			require.Contains(t, o.Error, c.says)
			require.True(t, o.NeverStarted)
			require.False(t, o.EndUnknown)
		})
	}
	o := run(t, exectest.Attempt{Task: task.Task{Payload: json.RawMessage(`{`)}}, shell("true"))
	require.Equal(t, task.Rejected, o.Verdict)
	require.True(t, o.NeverStarted)
}

func TestDashOfTheTemplateItself(t *testing.T) {
	c := shell("")
	c.Argv = append(argv("sh", "-c", `printf %s "$1"`, "sh"), task.Argument{Template: exectest.Text("-n7"), Dash: true})
	o := run(t, exectest.Attempt{}, c)
	require.Equal(t, "-n7", o.Output, o.Error)
}

func TestWhatItSees(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://secret")
	t.Setenv("LEASEHOLD_STORE", "postgres://secret")
	t.Setenv("LANG", "C.UTF-8")
	dir := t.TempDir()
	c := shell(`cat; echo ---; env | sort; echo ---; pwd; ls -ld "$(dirname "$LEASEHOLD_RESULT_FILE")"`)
	c.Dir = dir
	c.Env = map[string]task.Template{"MODE": exectest.Text("fast")}
	for _, name := range []string{"LEASEHOLD_FENCE", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "TRACEPARENT"} {
		c.Env[name] = exectest.Text("mine")
	}
	row := task.Task{Type: "resize", Attempt: 2, Payload: json.RawMessage(`{ "file": "a<b" }`), Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	l := exectest.Attempt{Task: row, Policy: task.Policy{Heartbeat: 10 * time.Second}}.Lease()
	defer l.Close()
	l.SetPingURL(func() string { return "http://127.0.0.1:7070/ping/4211.9.mac" })
	o := runLease(t, l, c)
	require.Equal(t, task.Succeeded, o.Verdict, o.Error)
	parts := strings.Split(o.Output, "---\n")
	require.Len(t, parts, 3)

	var doc struct {
		Type string
		Data json.RawMessage
		Task struct{ Deadline string }
	}
	require.NoError(t, json.Unmarshal([]byte(parts[0]), &doc))
	require.Equal(t, "video.resize", doc.Type)
	require.Equal(t, `{ "file": "a<b" }`, string(doc.Data))
	require.True(t, strings.HasSuffix(parts[0], "\n"))

	for _, line := range []string{
		"LANG=C.UTF-8", "MODE=fast", "LEASEHOLD_TASK_ID=4211", "LEASEHOLD_TYPE=video.resize", "LEASEHOLD_PHASE=run",
		"LEASEHOLD_ATTEMPT=2", "LEASEHOLD_FENCE=9", "LEASEHOLD_DEADLINE=" + doc.Task.Deadline, "TMPDIR=" + os.Getenv("TMPDIR"),
		"LEASEHOLD_PING_FD=3", "LEASEHOLD_PING_URL=http://127.0.0.1:7070/ping/4211.9.mac", "WATCHDOG_USEC=10000000",
	} {
		require.Contains(t, "\n"+parts[1], "\n"+line+"\n")
	}
	require.Regexp(t, `(?m)^TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-[0-9a-f]{16}-01$`, parts[1])
	require.Regexp(t, `(?m)^NOTIFY_SOCKET=/.*/\d+$`, parts[1])
	for _, none := range []string{"secret", "LEASEHOLD_STORE", "mine", "WATCHDOG_PID"} {
		require.NotContains(t, parts[1], none)
	}
	o = run(t, exectest.Attempt{}, shell("env"))
	for _, none := range []string{"WATCHDOG", "LEASEHOLD_PING_URL"} {
		require.NotContains(t, o.Output, none, "no heartbeat is declared, and no listener serves pings")
	}
	resolved, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	require.Contains(t, parts[2], resolved+"\n")
	require.Contains(t, parts[2], "drwx------")
}

func TestProgramsAreFound(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tool", filepath.Join("bin", "tool")} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho "+name+"\n"), 0o700))
	}
	c := shell("")
	c.Dir = dir
	c.Argv = argv("./tool")
	require.Equal(t, "tool\n", run(t, exectest.Attempt{}, c).Output)
	c.Argv = argv("bin/tool")
	require.Equal(t, "bin/tool\n", run(t, exectest.Attempt{}, c).Output)
	c.Argv = argv("tool")
	c.Env = map[string]task.Template{"PATH": exectest.Text(".:" + filepath.Join(dir, "bin") + ":/usr/bin:/bin")}
	require.Equal(t, "bin/tool\n", run(t, exectest.Attempt{}, c).Output, "the declared PATH, and nothing relative in it")
}

func TestStartBeginsTheTimeout(t *testing.T) {
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	started := false
	c := shell("exit 3")
	r := New(Options{Log: slog.New(slog.DiscardHandler)})
	defer r.Close()
	o := r.Run(l, declared(c), c, func() { started = true })
	require.Equal(t, task.Failed, o.Verdict)
	require.True(t, started)
	_, ok := l.Started()
	require.True(t, ok)
}

// An agent that stood still wakes up late: its row is another's by then, perhaps.
func TestNothingIsStartedTooLate(t *testing.T) {
	c := shell("echo it ran")
	o := run(t, exectest.Attempt{Age: 24 * time.Hour}, c)
	require.Equal(t, task.Drained, o.Verdict)
	require.Contains(t, o.Error, "the agent was frozen until the lease was over")
	require.True(t, o.NeverStarted)
}

func TestStoppedBeforeStart(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	l.Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "by hand"})
	o := runLease(t, l, shell("touch "+marker))
	require.Equal(t, task.Outcome{Verdict: task.Cancelled, Error: "by hand", NeverStarted: true}, o)

	parent, cancel := context.WithCancel(context.Background())
	cancel()
	o = run(t, exectest.Attempt{Parent: parent}, shell("touch "+marker))
	require.Equal(t, task.Outcome{Verdict: task.Drained, Error: "the agent is stopping", NeverStarted: true}, o)
	require.NoFileExists(t, marker)
}

func TestUser(t *testing.T) {
	c := shell(`id -un; id -gn; echo $HOME; touch "$LEASEHOLD_RESULT_FILE"; echo 7 > "$LEASEHOLD_RESULT_FILE"`)
	c.User = "nobody"
	o := run(t, exectest.Attempt{}, c)
	if os.Geteuid() != 0 {
		require.Equal(t, task.Undelivered, o.Verdict)
		require.Contains(t, o.Error, "only an agent that runs as root")
		return
	}
	require.Equal(t, task.Succeeded, o.Verdict, o.Error)
	require.Equal(t, "7", string(o.Result))
	require.Equal(t, "nobody\nnogroup\n/nonexistent\n", o.Output)

	c.User = fmt.Sprint(os.Geteuid())
	o = run(t, exectest.Attempt{}, c)
	require.True(t, strings.HasPrefix(o.Output, "root\n"), "by number; already that user: %+v", o)
}

func TestOutOfMemoryIsReported(t *testing.T) {
	events := filepath.Join(t.TempDir(), "memory.events")
	require.NoError(t, os.WriteFile(events, []byte("low 0\noom 3\noom_kill 1\n"), 0o600))
	r := New(Options{Log: slog.New(slog.DiscardHandler)})
	defer r.Close()
	r.oom = newOOMCounter(events)
	killed := func() string {
		l := exectest.Attempt{}.Lease()
		defer l.Close()
		c := shell("kill -KILL $$")
		return r.Run(l, declared(c), c, func() {}).Error
	}
	require.Equal(t, killedSoon.Error, killed())
	require.NoError(t, os.WriteFile(events, []byte("low 0\noom 3\noom_kill 2\n"), 0o600))
	require.Equal(t, "killed by SIGKILL, probably by the kernel: out of memory", killed())
	require.Equal(t, killedSoon.Error, killed())
	require.Zero(t, newOOMCounter(filepath.Join(t.TempDir(), "none")).read())
}
