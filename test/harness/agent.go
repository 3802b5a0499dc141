package harness

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// readyWithin bounds how long an agent may take from its start to its session.
const readyWithin = 30 * time.Second

// Agent is an agent as a process.
type Agent struct {
	*Process
	Name string
}

// AgentOptions say how an agent is to run.
type AgentOptions struct {
	Name   string
	Store  string   // its URL
	Listen string   // 127.0.0.1:0 unless it is said
	Agent  string   // further attributes of the agent block, as HCL
	Config string   // further blocks, as HCL
	Paths  []string // further configuration files
	Env    []string // added to the environment
	Says   []string // parts of lines that Await waits for
}

// StartAgent starts an agent and waits until its session is open.
func StartAgent(t testing.TB, o AgentOptions) *Agent {
	t.Helper()
	file := filepath.Join(t.TempDir(), o.Name+".hcl")
	text := fmt.Sprintf("agent {\n  name = %q\n  listen = %q\n%s\n}\n%s\n", o.Name, cmp.Or(o.Listen, "127.0.0.1:0"), o.Agent, o.Config)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	args := []string{"run", "--migrate", "--store", o.Store, file}
	cmd := exec.Command(Binary(t), append(args, o.Paths...)...) //nolint:noctx // StartProcess ends it
	cmd.Dir, cmd.Env = filepath.Dir(file), environment(o.Env)
	const ready = `"agent ready"`
	a := &Agent{StartProcess(t, o.Name, cmd, append(o.Says, ready)...), o.Name}
	a.Await(t, ready, readyWithin)
	return a
}

// Drain ends the agent with SIGTERM and checks that it ends well.
func (a *Agent) Drain(t testing.TB) {
	t.Helper()
	a.Signal(t, syscall.SIGTERM)
	require.Zero(t, a.Wait(t), "%s drained badly: %s", a.Name, a.Tail())
}
