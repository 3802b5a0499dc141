// Package harness runs the real agent for tests: it builds the binary once for each test process, starts agents and
// applications as processes of their own, and gives each test a store of its own.
package harness

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// variable holds the path of the binary that Main has built.
const variable = "LEASEHOLD_TEST_BINARY"

// Bounds of what a test may wait for a process.
const (
	buildWithin   = 10 * time.Minute
	commandWithin = 2 * time.Minute
)

// besideOneAnother is how many parallel tests run at once for each processor: they wait for processes most of the time.
const besideOneAnother = 4

// Main builds the agent, runs the tests and returns the exit code. TestMain calls it.
func Main(m *testing.M) int { return MainBeside(m, besideOneAnother) }

// MainBeside is Main where the command line does not say how many parallel tests run at once: so many for each processor.
func MainBeside(m *testing.M, each int) int {
	if err := beside(each); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "leasehold-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the system's directory for such things
	binary := filepath.Join(dir, "leasehold")
	ctx, cancel := context.WithTimeout(context.Background(), buildWithin)
	defer cancel()
	// As it is released: static, and without the race detector, which would be measured too.
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "./cmd/agent")
	build.Dir, build.Env = Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the agent: %s\n%s", err, out)
		return 1
	}
	if err := os.Setenv(variable, binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// beside sets -parallel, unless the command line does.
func beside(each int) error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(each*runtime.GOMAXPROCS(0)))
}

// Root is the repository's directory.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Run runs a command of the agent's and returns what it prints and its exit code.
func Run(t testing.TB, env []string, args ...string) (out string, exit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t), args...)
	cmd.Dir, cmd.Env = t.TempDir(), environment(env)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil || !cmd.ProcessState.Exited() {
		require.NoError(t, err, "leasehold %s: %s", strings.Join(args, " "), stderr.String())
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Logf("leasehold %s: exit %d: %s", strings.Join(args, " "), code, stderr.String())
		return stdout.String(), code
	}
	return stdout.String(), 0
}

// MustRun is Run for commands that have to succeed.
func MustRun(t testing.TB, env []string, args ...string) (out string) {
	t.Helper()
	out, exit := Run(t, env, args...)
	require.Zero(t, exit)
	return out
}

// Binary is the path of the agent's program.
func Binary(t testing.TB) string {
	t.Helper()
	path := os.Getenv(variable)
	require.NotEmpty(t, path, "TestMain has to call harness.Main")
	return path
}

// environment is the test's own without the settings of the user's own agent, and env on top.
func environment(env []string) []string {
	var all []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LEASEHOLD_") && !strings.HasPrefix(v, "DATABASE_URL=") {
			all = append(all, v)
		}
	}
	return append(all, env...)
}
