package worker

import (
	"encoding/json"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// echoed is what "echo" returns.
type echoed struct{ PID, Runs int }

func echo(t *testing.T, p *Pool) (e echoed) {
	t.Helper()
	o := run(t, p, do("echo"))
	require.Equal(t, task.Succeeded, o.Verdict, o.Error)
	require.NoError(t, json.Unmarshal(o.Result, &e))
	return e
}

func TestOneProcessRunsManyAttempts(t *testing.T) {
	p := play(t, declared(t, "plays"))
	first := echo(t, p)
	require.Equal(t, 1, first.Runs)
	for i := 2; i < 50; i++ {
		require.Equal(t, echoed{first.PID, i}, echo(t, p))
	}
}

// TestEnds is every way in which an attempt ends in a worker, and whether the worker goes on.
func TestEnds(t *testing.T) {
	big := task.MaxResult + 2
	for what, c := range map[string]struct {
		want   task.Outcome
		goesOn bool
	}{
		"fail":           {task.Outcome{Verdict: task.Failed, Error: "no such invoice"}, true},
		"reject":         {task.Outcome{Verdict: task.Rejected, Error: "no such invoice"}, true},
		"defer":          {task.Outcome{Verdict: task.Deferred, Error: "the worker deferred it", RetryAfter: 30 * time.Second}, true},
		"stale":          {task.Outcome{Verdict: task.Superseded, Error: "the application knows a newer attempt", EndUnknown: true}, true},
		"print":          {task.Outcome{Verdict: task.Succeeded, Output: "out\nerr\n"}, true},
		"garbage":        {task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("1")}, true},
		"pings":          {task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("1")}, true},
		"closes 1":       {task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("1")}, true},
		"long result":    {task.Outcome{Verdict: task.Succeeded, Note: "result not kept: it has " + strconv.Itoa(big) + " bytes, and the limit is 65536"}, true},
		"die":            {task.Outcome{Verdict: task.Failed, Error: "exit code 3: bye", Output: "bye\n"}, false},
		"exit 0":         {task.Outcome{Verdict: task.Failed, Error: "the worker exited with code 0 and wrote no last line for the attempt"}, false},
		"result and die": {task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("1")}, false},
		"twice":          {task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("1")}, false},
		"other": {task.Outcome{Verdict: task.Failed, Error: "the worker wrote a last line for task 4211 (fence 8) while it ran task 4211 (fence 9): " +
			"repeat id and fence of the envelope that was read last"}, false},
		"unnamed": {task.Outcome{Verdict: task.Failed, Error: "the worker's last line cannot be read: the last line of an attempt must repeat " +
			`the envelope's id and fence, as {"id": 4211, "fence": 9, "result": …}: {"result": 1}`}, false},
		"long": {task.Outcome{Verdict: task.Failed, Error: "the worker wrote a line of more than 1048576 bytes on descriptor 3; " +
			"a result has at most 65536: store what is larger elsewhere, and return where it is"}, false},
		"endless line": {task.Outcome{Verdict: task.Failed, Error: "the worker wrote a line of more than 1048576 bytes on descriptor 3; " +
			"a result has at most 65536: store what is larger elsewhere, and return where it is"}, false},
		"closes 3": {task.Outcome{Verdict: task.Failed, Error: "the worker closed descriptor 3 without a last line for the attempt: " +
			"keep it open until you exit"}, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := play(t, declared(t, "plays"))
			before := echo(t, p)
			require.Equal(t, c.want, run(t, p, do(what)))
			if !c.goesOn { // a second last line may come when the worker is free again
				require.Eventually(t, func() bool { return syscall.Kill(before.PID, 0) != nil }, 20*time.Second, time.Millisecond)
			}
			after := echo(t, p)
			if c.goesOn {
				require.Equal(t, echoed{before.PID, 3}, after, "the worker goes on")
			} else {
				require.NotEqual(t, before.PID, after.PID, "another worker goes on")
				require.Equal(t, 1, after.Runs)
			}
		})
	}
}

func TestKilledBySignal(t *testing.T) {
	p := play(t, declared(t, "plays"))
	require.Equal(t, task.Outcome{Verdict: task.Failed, Error: "killed by SIGTERM"}, run(t, p, do("term")))
	echo(t, p)
}

// TestPingsAreOfTheirAttempt drops what names another attempt, and what comes after the last line.
func TestPingsAreOfTheirAttempt(t *testing.T) {
	p := play(t, declared(t, "plays"))
	l := do("pings").Lease()
	defer l.Close()
	var got []string
	l.OnPing(func(x store.Ping, _ store.PingReply) { got = append(got, string(x.Progress)) })
	require.Equal(t, task.Succeeded, p.Run(l, p.typ, func() {}).Verdict)
	echo(t, p)
	require.Equal(t, []string{"0.1", "0.3"}, got)
}

// TestStopTakesTheProcessAlong stops attempts for each cause: the process is gone when the attempt ends.
func TestStopTakesTheProcessAlong(t *testing.T) {
	for name, c := range map[string]struct {
		do   string
		want task.Outcome
	}{
		"hung":         {"hang", task.Outcome{Verdict: task.Cancelled, Error: "cancelled by ann"}},
		"late result":  {"late result", task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`"in time"`)}},
		"a late error": {"late error", task.Outcome{Verdict: task.Cancelled, Error: "cancelled by ann"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := declared(t, "plays")
			command.StopGrace = time.Second
			p := play(t, command)
			before := echo(t, p)
			l := do(c.do).Lease()
			defer l.Close()
			time.AfterFunc(200*time.Millisecond, func() { l.Stop(&lease.Cause{Verdict: task.Cancelled, Reason: "cancelled by ann"}) })
			require.Equal(t, c.want, p.Run(l, p.typ, func() {}))
			require.ErrorIs(t, syscall.Kill(before.PID, 0), syscall.ESRCH, "the process is gone")
			require.NotEqual(t, before.PID, echo(t, p).PID)
		})
	}
}

func TestTimeout(t *testing.T) {
	p := play(t, declared(t, "plays"))
	a := do("hang")
	a.Policy = task.Policy{Timeout: 300 * time.Millisecond, Stop: task.StopLength(5 * time.Second)}
	o := run(t, p, a)
	require.Equal(t, task.TimedOut, o.Verdict, o.Error)
	echo(t, p)
}

// TestDeaf gives envelopes to a worker that reads none: small ones, and one that does not fit into the pipe.
func TestDeaf(t *testing.T) {
	for name, size := range map[string]int{"small": 1, "large": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := declared(t, "deaf")
			c.StopGrace = 100 * time.Millisecond
			p := play(t, c)
			a := do(strings.Repeat("a", size))
			a.Policy = task.Policy{Timeout: 300 * time.Millisecond, Stop: task.StopLength(5 * time.Second)}
			o := run(t, p, a)
			require.Equal(t, task.Undelivered, o.Verdict, o.Error)
			require.Contains(t, o.Error, "the worker read nothing of the envelope: ")
			require.True(t, o.NeverStarted)
		})
	}
}

// TestReadsNothing gives envelopes to workers that end before they have read one: no attempt counts.
func TestReadsNothing(t *testing.T) {
	for _, part := range []string{"shuts", "ends"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			c := declared(t, part)
			c.StopGrace = 100 * time.Millisecond
			p := play(t, c)
			a := do("echo")
			a.Policy = task.Policy{Timeout: 2 * time.Second, Stop: task.StopLength(5 * time.Second)}
			var o task.Outcome
			for tries := 0; o.Verdict != task.Undelivered; tries++ {
				require.Less(t, tries, 100)
				o = run(t, p, a)
				require.Contains(t, []task.Verdict{task.Drained, task.Undelivered}, o.Verdict, o.Error)
				require.True(t, o.NeverStarted)
			}
			require.Contains(t, o.Error, "the worker cannot be started: it ended before it ")
		})
	}
}

// TestNothingIsLeftAfterAnError ends the group of a worker that fails an attempt while a process of it goes on.
func TestNothingIsLeftAfterAnError(t *testing.T) {
	p := play(t, declared(t, "plays"))
	before := echo(t, p)
	o := run(t, p, do("leaves and fails"))
	require.Equal(t, "no", o.Error)
	left, err := strconv.Atoi(strings.TrimSpace(o.Output))
	require.NoError(t, err)
	require.False(t, alive(left), "the row is free, so nothing may work on it")
	require.NotEqual(t, before.PID, echo(t, p).PID)

	o = run(t, p, do("leaves"))
	require.Equal(t, task.Succeeded, o.Verdict)
	left, err = strconv.Atoi(strings.TrimSpace(o.Output))
	require.NoError(t, err)
	require.True(t, alive(left), "what an attempt that has succeeded leaves may go on")
	require.NoError(t, syscall.Kill(left, syscall.SIGKILL))
}

// TestWhatIsLeftMayTidyUp asks what an attempt has left to end, before it is killed.
func TestWhatIsLeftMayTidyUp(t *testing.T) {
	p := play(t, declared(t, "plays"))
	o := run(t, p, do("leaves one that tidies up and fails"))
	require.Equal(t, "no", o.Error)
	require.Contains(t, o.Output, "tidied up\n")
	o = run(t, p, do("leaves one that tidies up and dies"))
	require.Contains(t, o.Error, "exit code 3: ")
	require.Contains(t, o.Output, "tidied up\n")
}

// TestHelpersStay lets a worker fail attempts that has started processes before it was ready.
func TestHelpersStay(t *testing.T) {
	p := play(t, declared(t, "helped"))
	before := echo(t, p)
	require.Equal(t, task.Failed, run(t, p, do("fail")).Verdict)
	require.Equal(t, echoed{before.PID, 3}, echo(t, p))
}

// alive reports whether a process is there, and has not ended.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil && !zombie(pid) }

func TestReplacedAfterMaxTasks(t *testing.T) {
	c := declared(t, "plays")
	c.Worker.MaxTasks, c.Worker.Processes = 3, 1
	p := play(t, c)
	var runs []int
	pids := make(map[int]bool)
	for range 7 {
		e := echo(t, p)
		runs = append(runs, e.Runs)
		pids[e.PID] = true
	}
	require.Equal(t, []int{1, 2, 3, 1, 2, 3, 1}, runs)
	require.Len(t, pids, 3)
}

// TestAtOnce runs as many attempts at once as there are processes; one more waits for one of them.
func TestAtOnce(t *testing.T) {
	p := play(t, declared(t, "plays"))
	outcomes := make(chan task.Outcome)
	const attempts = 20
	for range attempts {
		go func() {
			l := do("echo").Lease()
			defer l.Close()
			outcomes <- p.Run(l, p.typ, func() {})
		}()
	}
	pids := make(map[int]bool)
	for range attempts {
		o := <-outcomes
		if o.Verdict == task.Drained { // it came too late
			require.True(t, o.NeverStarted)
			continue
		}
		require.Equal(t, task.Succeeded, o.Verdict, o.Error)
		var e echoed
		require.NoError(t, json.Unmarshal(o.Result, &e))
		pids[e.PID] = true
	}
	require.LessOrEqual(t, len(pids), 2)
}

// TestNotReady has workers that never get there: their starts back off, and the fifth in a row opens the breaker.
func TestNotReady(t *testing.T) {
	for part, why := range map[string]string{
		"never":  `it was not ready within 100ms: write {"ready": true} to descriptor 3, and flush it`,
		"exits":  "it ended before it was ready: exit code 4",
		"closes": `it closed descriptor 3 before it was ready: write {"ready": true} there, and keep it open`,
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			c := declared(t, part)
			c.StopGrace = 100 * time.Millisecond
			c.Worker.Processes = 1
			if part == "never" {
				c.Worker.Ready = 100 * time.Millisecond
			}
			p := play(t, c)
			var o task.Outcome
			for tries := 0; o.Verdict != task.Undelivered; tries++ {
				require.Less(t, tries, 100)
				o = run(t, p, do("echo"))
				require.Contains(t, []task.Verdict{task.Drained, task.Undelivered}, o.Verdict)
				require.True(t, o.NeverStarted)
			}
			require.Equal(t, enough, p.failures)
			require.Contains(t, o.Error, "tasks.hcl:3: the worker cannot be started: ")
			require.Contains(t, o.Error, why)
			n, wait := p.Room()
			require.Zero(t, n)
			require.Positive(t, wait)
		})
	}
}

func TestCannotStart(t *testing.T) {
	c := declared(t, "plays")
	c.Argv = []task.Argument{{Template: exectest.Text("no-such-program")}}
	o := run(t, play(t, c), do("echo"))
	require.Equal(t, task.Undelivered, o.Verdict)
	require.True(t, o.NeverStarted)
	require.Contains(t, o.Error, `"no-such-program" is not in PATH`)
}

// TestPatient runs one attempt alone: it waits for a process that takes longer than a claimed row may wait, and one start that
// comes to nothing ends it.
func TestPatient(t *testing.T) {
	for part, want := range map[string]task.Verdict{"slow": task.Succeeded, "exits": task.Undelivered} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			p := play(t, declared(t, part))
			p.Patient = true
			o := run(t, p, do("echo"))
			require.Equal(t, want, o.Verdict, o.Error)
		})
	}
	p := play(t, declared(t, "slow"))
	o := run(t, p, do("echo"))
	require.Equal(t, task.Outcome{Verdict: task.Drained, NeverStarted: true, Error: "no worker was ready in time"}, o)
}

// TestAfterACheck runs an attempt whose check was asked before: a process is started for it as for any other.
func TestAfterACheck(t *testing.T) {
	p := play(t, declared(t, "plays"))
	l := do("echo").Lease()
	defer l.Close()
	l.Check().Close()
	o := p.Run(l, p.typ, func() {})
	require.Equal(t, task.Succeeded, o.Verdict, o.Error)
}

// TestHasty has a worker end an attempt before it has read the envelope: the attempt has ended, and the process is not used
// again, because it would read the rest as another envelope.
func TestHasty(t *testing.T) {
	c := declared(t, "hasty")
	c.StopGrace = 100 * time.Millisecond
	p := play(t, c)
	o := run(t, p, do(strings.Repeat("a", 1<<20)))
	require.Equal(t, task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage("1")}, o)
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.idle)
}

// TestFloodOfTheLeft ends an attempt whose process has ended, while another that it has left writes to descriptor 3 without a pause.
func TestFloodOfTheLeft(t *testing.T) {
	p := play(t, declared(t, "plays"))
	echo(t, p)
	began := time.Now()
	require.Equal(t, task.Outcome{Verdict: task.Failed, Error: "exit code 3"}, run(t, p, do("leaves a flood and dies")))
	require.Less(t, time.Since(began), 5*time.Second)
	echo(t, p)
}

// TestSlowStart gives a row back at once where the process that is started for it takes longer than a row may wait.
func TestSlowStart(t *testing.T) {
	c := declared(t, "slow")
	c.Worker.Idle = time.Millisecond
	p := play(t, c)
	notReady := task.Outcome{Verdict: task.Drained, NeverStarted: true, Error: "no worker was ready in time"}
	ended := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.total == 0 && p.took > 0
	}
	require.Equal(t, notReady, run(t, p, do("echo")), "nothing is known of it yet")
	require.Eventually(t, ended, 20*time.Second, 5*time.Millisecond)
	began := time.Now()
	require.Equal(t, notReady, run(t, p, do("echo")))
	require.Less(t, time.Since(began), 500*time.Millisecond)
	require.Equal(t, 1, p.booting, "it is started all the same")
}

// TestFewStartAtOnce has many attempts wait for processes: these are started a few at a time.
func TestFewStartAtOnce(t *testing.T) {
	c := declared(t, "slow")
	c.Worker.Processes = 100
	p := play(t, c)
	p.Patient = true
	outcomes := make(chan task.Outcome)
	attempts := 2 * startsAtOnce()
	for range attempts {
		go func() {
			l := do("echo").Lease()
			defer l.Close()
			outcomes <- p.Run(l, p.typ, func() {})
		}()
	}
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.took > 0 {
			return true
		}
		require.LessOrEqual(t, p.total, startsAtOnce())
		return false
	}, 20*time.Second, time.Millisecond)
	for range attempts {
		require.Equal(t, task.Succeeded, (<-outcomes).Verdict)
	}
}
