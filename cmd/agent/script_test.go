package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"leasehold": main})
}

// TestScripts runs the command line as users do; each script has a directory of its own.
func TestScripts(t *testing.T) {
	// What a process catches its children have by default: they must not inherit that the tests ignore it, as under nohup.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: commands(), Setup: setup,
	})
}

// TestPostgresScripts does so on Postgres: DATABASE_URL and SCHEMA name a schema of the script's own.
func TestPostgresScripts(t *testing.T) {
	url := pgtest.URL(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/postgres", RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: commands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("DATABASE_URL", url)
			env.Setenv("SCHEMA", pgtest.Schema(t))
			setRefusing(t, env, url)
			return setup(env)
		},
	})
}

// setup spares each command the second that the race detector waits at the end of a process.
func setup(env *testscript.Env) error {
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	return nil
}

func commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){"until": until, "code": code, "sql": onFile, "get": get}
}

// get asks the agent that listens on agent.sock, which must answer with that status: `get 200 /api/v1/plan`. The answer becomes stdout.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get status path")
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", ts.MkAbs("agent.sock"))
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://localhost"+args[1], http.NoBody)
	ts.Check(err)
	resp, err := client.Do(r)
	ts.Check(err)
	body, err := io.ReadAll(resp.Body)
	ts.Check(errors.Join(err, resp.Body.Close()))
	if fmt.Sprint(resp.StatusCode) != args[0] {
		ts.Fatalf("%s: status %d, not %s: %s", args[1], resp.StatusCode, args[0], body)
	}
	_, err = ts.Stdout().Write(body)
	ts.Check(err)
}

// onFile runs a statement on a file, as another program does: `sql leasehold.db 'DELETE FROM task'`.
func onFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql file statement")
	}
	db, err := sql.Open("sqlite", "file:"+ts.MkAbs(args[0])+"?_pragma=busy_timeout(20000)")
	ts.Check(err)
	_, err = db.ExecContext(context.Background(), args[1])
	ts.Check(errors.Join(err, db.Close()))
}

// code runs a command that must end with that exit code: `code 2 leasehold nonsense`.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command [args]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = strconv.Itoa(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v: %v", args[1:], err)
	}
	if got != args[0] {
		ts.Fatalf("%v: exit code %s, not %s", args[1:], got, args[0])
	}
}

// until runs a command again and again until it succeeds: `until leasehold task list`. A process beside the script has
// no other way to say that it has come so far.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: until command [args]")
	}
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for late := time.After(20 * time.Second); ; {
		err := ts.Exec(args[0], args[1:]...)
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-late:
			ts.Fatalf("%v: still %v", args, err)
		}
	}
}
