package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
	"github.com/leasehold/leasehold/test/pressure"
)

// workerScript is a worker. It leaves a line for each attempt in a file: its task, number and process, and that of a process that
// it leaves behind. "once" hangs at its first attempt, "hang" at each.
const workerScript = `
import json, os, subprocess, sys, time
out = os.fdopen(3, "w", buffering=1)
print('{"ready": true}', file=out)
for line in sys.stdin:
    e = json.loads(line)
    do, task, left = e["data"].get("do"), e["task"], 0
    hangs = do == "hang" or do == "once" and task["attempt"] == 1
    if hangs:
        left = subprocess.Popen(["sleep", "1000"], start_new_session=True).pid
    with open("runs", "a") as runs:
        print(task["id"], task["attempt"], os.getpid(), left, file=runs)
    if hangs:
        time.sleep(1000)
    print(json.dumps({"id": task["id"], "fence": task["fence"], "result": {"pid": os.getpid()}}), file=out)
`

// crew is a store, an agent whose type "work" has workers, and what they leave behind.
type crew struct {
	*fakeTarget
	dir string
}

func newCrew(t *testing.T, d *fakeTarget) *crew {
	t.Helper()
	c := &crew{d, t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "worker.py"), []byte(workerScript), 0o600))
	return c
}

// start starts an agent with that many processes, and more in the task block and in the worker block.
func (c *crew) start(name string, processes int, work, worker string) *harness.Agent {
	c.t.Helper()
	return c.declare(name, fmt.Sprintf("workers = %[1]d\n  %[2]s\n  command {\n    argv = [\"python3\", \"worker.py\"]\n    dir = %[3]q\n"+
		"    stop_grace = \"200ms\"\n    worker {\n      processes = %[1]d\n      %[4]s\n    }\n  }", processes, work, c.dir, worker))
}

// add makes n tasks that do that.
func (c *crew) add(n int, do string) {
	c.t.Helper()
	values := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`('work', '{"do": %q}'),`, do), n), ",")
	c.exec("INSERT INTO " + c.schema() + "task (type, payload) VALUES " + values)
}

// workerRun is an attempt that a worker ran.
type workerRun struct{ id, attempt, pid, left int }

func (c *crew) runs() (all []workerRun) {
	text, err := os.ReadFile(filepath.Join(c.dir, "runs"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(c.t, err)
	for line := range strings.Lines(string(text)) {
		var r workerRun
		if n, _ := fmt.Sscan(line, &r.id, &r.attempt, &r.pid, &r.left); n == 4 {
			all = append(all, r)
		}
	}
	return all
}

// awaitRuns waits until so many attempts have begun.
func (c *crew) awaitRuns(n int) []workerRun {
	c.t.Helper()
	harness.Until(c.t, workWithin, fmt.Sprintf("%d attempts have begun", n), func() bool { return len(c.runs()) >= n })
	return c.runs()
}

// processesOf lists the processes of all attempts, and what they left behind.
func processesOf(all []workerRun) (pids []int) {
	for _, r := range all {
		pids = append(pids, r.pid)
		if r.left != 0 {
			pids = append(pids, r.left)
		}
	}
	return pids
}

// awaitMany waits until so many tasks are in that state.
func (d *fakeTarget) awaitMany(n int, state string) {
	d.t.Helper()
	harness.Until(d.t, workWithin, fmt.Sprintf("%d are %s", n, state), func() bool {
		list := harness.MustRun(d.t, nil, "task", "list", "--state", state, "--limit", "1000", "-o", "jsonl", "--store", d.store)
		return strings.Count(list, "\n") == n
	})
}

// TestWorkersRunMany: few processes run many attempts, each is replaced after max_tasks, and none is left when the agent has ended.
func TestWorkersRunMany(t *testing.T) {
	const tasks, most = 60, 8
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		c := newCrew(t, d)
		a := c.start("agent", 2, "", fmt.Sprintf("max_tasks = %d", most))
		c.add(tasks, "")
		c.awaitMany(tasks, "succeeded")
		by := map[int]int{}
		for _, r := range c.runs() {
			require.Equal(t, 1, r.attempt)
			by[r.pid]++
			require.LessOrEqual(t, by[r.pid], most)
		}
		require.GreaterOrEqual(t, len(by), tasks/most)
		require.LessOrEqual(t, len(by), tasks/most+4, "processes: %v", by)
		var result struct{ PID int }
		require.NoError(t, json.Unmarshal(c.show(1).Result, &result))
		require.Positive(t, by[result.PID])
		a.Drain(t)
		require.Zero(t, living(processesOf(c.runs())), "workers that ran nothing have ended with their agent")
	})
}

// TestWorkersDieWithTheirAgent: a second after the agent's death none of its workers lives, busy or idle, nor what they started.
func TestWorkersDieWithTheirAgent(t *testing.T) {
	onEachStoreAlone(t, func(t *testing.T, d *fakeTarget) {
		c := newCrew(t, d)
		a := c.start("killed", 3, "", "")
		c.add(2, "hang")
		c.awaitRuns(2)
		c.add(1, "")
		c.becomes(3, "succeeded") // in a process that is idle now
		pids := processesOf(c.runs())
		require.Equal(t, 5, living(pids))
		began := pressure.Start()
		a.Kill(t)
		harness.Until(t, workWithin, "its workers are dead", func() bool { return living(pids) == 0 })
		took := began.Took()
		t.Logf("its workers were dead after %s", took.Round(time.Millisecond))
		require.Less(t, took, time.Second)
	})
}

// TestHungWorkerIsReplaced: an attempt that hangs stalls, its process dies with what it has started, and the task is tried again
// in another process; so is one that is cancelled, and not tried again.
func TestHungWorkerIsReplaced(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		c := newCrew(t, d)
		a := c.start("agent", 1, "heartbeat = \"3s\"", "")
		c.add(1, "once")
		first := c.awaitRuns(1)[0]
		c.becomes(1, "succeeded")
		require.Equal(t, []string{"stalled", "succeeded"}, c.outcomes(1))
		second := c.runs()[1]
		require.Equal(t, 2, second.attempt)
		require.NotEqual(t, first.pid, second.pid)
		require.Zero(t, living(processesOf([]workerRun{first})))

		c.add(1, "hang")
		cancelled := c.awaitRuns(3)[2]
		require.Equal(t, second.pid, cancelled.pid, "the process goes on after an attempt that succeeded")
		c.request("cancel", 2)
		c.becomes(2, "cancelled")
		require.Zero(t, living(processesOf([]workerRun{cancelled})))
		c.add(1, "")
		c.becomes(3, "succeeded")
		require.NotEqual(t, cancelled.pid, c.runs()[3].pid)
		a.Drain(t)
	})
}

// TestDrainedWorkers: an agent that drains ends its workers, busy and idle ones. What they ran uses up no attempt.
func TestDrainedWorkers(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		c := newCrew(t, d)
		a := c.start("agent", 2, "", "")
		c.add(1, "once")
		c.awaitRuns(1)
		c.add(1, "")
		c.becomes(2, "succeeded")
		a.Drain(t)
		require.Zero(t, living(processesOf(c.runs())))
		require.Equal(t, []string{"drained"}, c.outcomes(1))
		require.Equal(t, "pending", c.show(1).State, "no attempt counts")
	})
}

// shellWorker is a worker in shell whose results say who it runs as.
const shellWorker = `echo '{"ready": true}' >&3
while IFS= read -r line; do
  id=$(printf %s "$line" | sed 's/.*"task": *{"id": *\([0-9]*\).*/\1/')
  fence=$(printf %s "$line" | sed 's/.*"fence": *\([0-9]*\).*/\1/')
  echo "{\"id\": $id, \"fence\": $fence, \"result\": {\"uid\": \"$(id -u)\", \"home\": \"$HOME\"}}" >&3
done`

// TestWorkersUser: workers run as the declared user; one who is not root can declare only itself.
func TestWorkersUser(t *testing.T) {
	me, err := user.Current()
	require.NoError(t, err)
	as := me
	if me.Uid == "0" {
		as, err = user.Lookup("nobody")
		require.NoError(t, err)
	}
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		a := d.declare("agent", fmt.Sprintf("command {\n    argv = [\"sh\", \"-c\", %s]\n    dir = \"/\"\n    user = %q\n    worker {}\n  }",
			strconv.Quote(shellWorker), as.Username))
		for range 3 {
			var result struct{ UID, Home string }
			require.NoError(t, json.Unmarshal(d.becomes(d.enqueue("{}"), "succeeded").Result, &result))
			require.Equal(t, as.Uid, result.UID)
			require.Equal(t, as.HomeDir, result.Home)
		}
		a.Drain(t)
	})
}
