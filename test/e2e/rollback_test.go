package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestCheck: what is done already is not run, what is not is, and a check that fails is an attempt that has failed, which
// leaves nothing to undo.
func TestCheck(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		a := d.agent("agent")
		done := d.enqueue(`{"check": ["{\"done\": true, \"result\": {\"by\": \"another\"}}"]}`)
		open := d.enqueue(`{"check": ["{\"done\": false}"]}`)
		silent := d.enqueue(`{"check": ["ok"], "run": ["reject"], "rollback": ["ok"]}`)
		bad := d.enqueue(`{"check": ["fail"]}`)

		s := d.becomes(done, "succeeded")
		require.JSONEq(t, `{"by": "another"}`, string(s.Result))
		require.Equal(t, []string{"check"}, d.phases(done))
		d.becomes(open, "succeeded")
		require.Equal(t, []string{"check", "run"}, d.phases(open))
		calls := d.calls(open)
		require.Equal(t, fmt.Sprintf("task_%d_check_%d", open, calls[0].Task.Fence), calls[0].ID)
		require.Equal(t, fmt.Sprintf("task_%d", open), calls[1].ID)
		require.Equal(t, calls[0].Task.Fence, calls[1].Task.Fence, "one attempt")
		require.Nil(t, calls[0].Task.PingURL)
		require.NotNil(t, calls[1].Task.PingURL)
		d.becomes(silent, "rolled_back")
		require.Equal(t, []string{"check", "run", "rollback"}, d.phases(silent), "no check comes before a rollback")

		s = d.becomes(bad, "failed")
		require.Contains(t, s.Error, "attempt 2 of 2 failed: check: answered 500")
		require.Equal(t, []string{"check", "check"}, d.phases(bad))
		require.Len(t, s.History, 2)
		a.Drain(t)
	})
}

// TestRollbackByWebhook: what has failed for the last time is rolled back, by a request that says why.
func TestRollbackByWebhook(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		a := d.agent("agent")
		const payload = `{"run": ["fail"]}`
		id := d.enqueue(payload)
		s := d.becomes(id, "rolled_back")
		require.Equal(t, []string{"check", "run", "check", "run", "rollback"}, d.phases(id))
		calls := d.calls(id)
		rollback := calls[4]
		require.Equal(t, fmt.Sprintf("task_%d_rollback", id), rollback.ID)
		require.Greater(t, rollback.Task.Fence, calls[3].Task.Fence)
		require.Equal(t, 1, rollback.Task.Attempt, "counted anew")
		require.JSONEq(t, payload, string(rollback.Data))
		require.Equal(t, "failed", rollback.Task.Outcome)
		require.Equal(t, "null", string(rollback.Task.Result))
		require.Equal(t, "rollback", s.History[len(s.History)-1].Phase)
		a.Drain(t)
	})
}

// TestOneTrace: checks, attempts, rollback and an operator's retry of a task that was inserted without a trace context are
// in one trace, on whichever agent, and people find it.
func TestOneTrace(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		a, b := d.agent("one"), d.agent("two")
		id, other := d.enqueue(`{"run": ["fail"]}`), d.enqueue(`{}`)
		d.becomes(id, "rolled_back")
		d.request("retry", id)
		d.awaits(id, "run", 4)
		s := d.becomes(id, "rolled_back")
		require.Regexp(t, "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$", s.Traceparent)
		trace := s.Traceparent[:36]
		spans := map[string]bool{s.Traceparent: true}
		calls := d.calls(id)
		require.Len(t, calls, 10)
		for _, c := range calls {
			require.Equal(t, trace, c.Trace[:36], c.Phase)
			require.False(t, spans[c.Trace], "each request is a span of its own")
			spans[c.Trace] = true
		}
		d.becomes(other, "succeeded")
		require.NotEqual(t, trace, d.calls(other)[0].Trace[:36], "another task is another trace")
		a.Drain(t)
		b.Drain(t)
	})
}

// TestRollbackByCommand: a command finds in its environment and its input that it is to undo.
func TestRollbackByCommand(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		dir := t.TempDir()
		a := d.declare("agent", fmt.Sprintf(`command {
    argv = ["sh", "-c", "echo half > made; exit 65"]
    dir  = %q
  }
  rollback {
    command {
      argv = ["sh", "-c", "[ $LEASEHOLD_PHASE = rollback ] && rm made && cat > received"]
      dir  = %q
    }
  }`, dir, dir))
		id := d.enqueue(`{"n": 7}`)
		d.becomes(id, "rolled_back")
		require.NoFileExists(t, filepath.Join(dir, "made"))
		var got call
		text, err := os.ReadFile(filepath.Join(dir, "received"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &got), "%s", text)
		require.Equal(t, "rejected", got.Task.Outcome)
		require.JSONEq(t, `{"n": 7}`, string(got.Data))
		a.Drain(t)
	})
}

// TestCancelledPartWay: a task that is cancelled while it runs is stopped, and then rolled back.
func TestCancelledPartWay(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		a := d.agent("agent")
		id := d.enqueue(`{"run": ["hang"]}`)
		d.awaits(id, "run", 1)
		harness.MustRun(t, nil, "task", "cancel", strconv.FormatInt(id, 10), "--store", d.store)
		d.becomes(id, "rolled_back")
		require.Equal(t, []string{"check", "run", "rollback"}, d.phases(id))
		require.Equal(t, "cancelled", d.calls(id)[2].Task.Outcome)
		a.Drain(t)
	})
}

// TestCancelledInItsCheck: nothing was run, so there is nothing to undo.
func TestCancelledInItsCheck(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		a := d.agent("agent")
		id := d.enqueue(`{"check": ["hang"]}`)
		d.awaits(id, "check", 1)
		harness.MustRun(t, nil, "task", "cancel", strconv.FormatInt(id, 10), "--store", d.store)
		d.becomes(id, "cancelled")
		require.Equal(t, []string{"check"}, d.phases(id))
		a.Drain(t)
	})
}

// TestRollbackThatHangs: one that makes no progress is stopped like any attempt, and tried again.
func TestRollbackThatHangs(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		a := d.agent("agent")
		id := d.enqueue(`{"run": ["reject"], "rollback": ["hang", "ok"]}`)
		s := d.becomes(id, "rolled_back")
		require.Equal(t, []string{"check", "run", "rollback", "rollback"}, d.phases(id))
		var ends []string
		for _, h := range s.History {
			ends = append(ends, h.Phase+" "+h.Outcome)
		}
		require.Equal(t, []string{"run rejected", "rollback stalled", "rollback succeeded"}, ends)
		a.Drain(t)
	})
}

// TestRollbackThatFails is loud: in the log, and in the metrics.
func TestRollbackThatFails(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		a := d.agent("agent")
		listens := regexp.MustCompile(`"listen":"([^"]+)"`).FindStringSubmatch(a.Tail())
		require.NotNil(t, listens, a.Tail())
		count := func() string {
			client := http.Client{Timeout: sqlWithin}
			resp, err := client.Get(listens[1] + "/metrics") //nolint:noctx // it has a time limit
			require.NoError(t, err)
			defer func() { _ = resp.Body.Close() }()
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			return regexp.MustCompile(`leasehold_rollbacks_failed_total.*work.*`).FindString(string(text))
		}
		require.Equal(t, `leasehold_rollbacks_failed_total{type="work"} 0`, count())
		id := d.enqueue(`{"run": ["reject"], "rollback": ["fail", "reject"]}`)
		s := d.becomes(id, "rollback_failed")
		require.Contains(t, s.Error, "rollback attempt 2 of 2 was rejected")
		require.Equal(t, `leasehold_rollbacks_failed_total{type="work"} 1`, count())
		require.Regexp(t, fmt.Sprintf(`"level":"ERROR","msg":"the rollback of a task has failed[^\n]*"task":%d,"type":"work","fence":%d,[^\n]*"why":"rollback attempt 2`,
			id, d.calls(id)[3].Task.Fence), a.Tail())
		a.Drain(t)
	})
}

// TestRollbackGoesOnByItself: a rollback may stream, or be accepted and completed, as a run may.
func TestRollbackGoesOnByItself(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		a := d.agent("agent")
		for _, way := range []string{"stream", "accept"} {
			id := d.enqueue(fmt.Sprintf(`{"run": ["reject"], "rollback": [%q]}`, way))
			s := d.becomes(id, "rolled_back")
			require.Equal(t, []string{"check", "run", "rollback"}, d.phases(id))
			require.Contains(t, []string{"", "null"}, string(s.Result), "the run had none")
			require.JSONEq(t, `{"reverted": true}`, string(s.History[len(s.History)-1].Result), way)
		}
		a.Drain(t)
	})
}

// TestWhatRollbacksWorkOn: the state before the change, as the producer knew it, or as the run has left it.
func TestWhatRollbacksWorkOn(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		a := d.agent("agent")
		schema := "leasehold."
		if d.onSQLite() {
			schema = ""
		}
		d.exec(`INSERT INTO ` + schema + `task (type, payload, rollback_payload) VALUES ('work', '{"run": ["reject"]}', '{"zone": "az1"}')`)
		d.becomes(1, "rolled_back")
		require.JSONEq(t, `{"zone": "az1"}`, string(d.calls(1)[2].Data))

		const result = `{"rollback": {"zone": "az2"}, "moved": true}`
		id := d.enqueue(fmt.Sprintf(`{"run": [%q]}`, result))
		d.becomes(id, "succeeded")
		d.request("rollback", id)
		s := d.becomes(id, "rolled_back")
		rollback := d.calls(id)[2]
		require.JSONEq(t, `{"zone": "az2"}`, string(rollback.Data))
		require.Equal(t, "succeeded", rollback.Task.Outcome)
		require.JSONEq(t, result, string(rollback.Task.Result))
		require.JSONEq(t, result, string(s.Result), "it stays the run's")
		a.Drain(t)
	})
}

// TestRetriedByAnOperator: what was rolled back is run again, as new work, and rolled back again.
func TestRetriedByAnOperator(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		a := d.agent("agent")
		id := d.enqueue(`{"run": ["reject", "ok"]}`)
		d.becomes(id, "rolled_back")
		d.request("retry", id)
		d.becomes(id, "succeeded")
		d.request("rollback", id)
		d.becomes(id, "rolled_back")
		var ids []string
		fence := int64(0)
		for _, c := range d.calls(id) {
			require.GreaterOrEqual(t, c.Task.Fence, fence, "it never falls")
			fence = c.Task.Fence
			if c.Phase != "check" {
				ids = append(ids, c.ID)
			}
		}
		name := fmt.Sprintf("task_%d", id)
		require.Equal(t, []string{name, name + "_rollback", name + "_r1", name + "_r1_rollback"}, ids)
		a.Drain(t)
	})
}

// TestAgentIsKilledInARollback: another goes on with it, by an attempt with a higher fence.
func TestAgentIsKilledInARollback(t *testing.T) {
	onEachStore(t, func(t *testing.T, d *fakeTarget) {
		a := d.agent("killed")
		id := d.enqueue(`{"run": ["reject"], "rollback": ["hang", "ok"]}`)
		d.awaits(id, "rollback", 1)
		a.Kill(t)
		other := d.agent("other")
		s := d.becomes(id, "rolled_back")
		calls := d.calls(id)
		require.Equal(t, []string{"check", "run", "rollback", "rollback"}, d.phases(id))
		require.Greater(t, calls[3].Task.Fence, calls[2].Task.Fence)
		require.Equal(t, calls[2].ID, calls[3].ID, "the same work")
		require.Equal(t, 2, calls[3].Task.Attempt)
		require.Equal(t, "rejected", calls[3].Task.Outcome, "why it is rolled back has not changed")
		require.Equal(t, "lost", s.History[1].Outcome)
		other.Drain(t)
	})
}

// TestAgentIsFrozenInACheck: its check is dead before others have the task, which they ask anew.
func TestAgentIsFrozenInACheck(t *testing.T) {
	t.Parallel()
	for name, store := range failStopStores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, dir := &fakeTarget{t: t, store: store}, t.TempDir()
			const check = `[ -e pid ] && exit 0; echo $$ > tmp; mv tmp pid; exec sleep 1000`
			work := fmt.Sprintf("check {\n    timeout = \"1m\"\n    command {\n      argv = [\"sh\", \"-c\", %q]\n      dir = %q\n    }\n  }\n"+
				"  command {\n    argv = [\"touch\", \"ran\"]\n    dir = %q\n  }", check, dir, dir)
			a := d.declare("frozen", work)
			id := d.enqueue(`{}`)
			pid := 0
			harness.Until(t, workWithin, "the check runs", func() bool {
				text, err := os.ReadFile(filepath.Join(dir, "pid"))
				if err != nil {
					return false
				}
				pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
				return err == nil
			})
			other := d.declare("other", work)
			freeze(t, a, store)
			s := d.becomes(id, "succeeded")
			require.Zero(t, living([]int{pid}))
			require.FileExists(t, filepath.Join(dir, "ran"))
			require.Equal(t, "lost", s.History[0].Outcome)
			a.Signal(t, syscall.SIGCONT)
			a.Drain(t)
			other.Drain(t)
			require.Len(t, d.show(id).History, 2)
		})
	}
}
