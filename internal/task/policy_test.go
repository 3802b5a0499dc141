package task_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/task"
)

// A stored policy is found again by its hash, by agents of other versions too: neither may change by accident.
func TestPolicyIsStoredAsItAlwaysWas(t *testing.T) {
	body, err := json.Marshal(policy())
	require.NoError(t, err)
	require.JSONEq(t, `{
		"timeout": 20000000000, "stop": 7000000000,
		"retry": {"limit": 2, "backoff": "exponential", "min": 1000000000, "max": 60000000000,
			"on": ["failed", "stalled", "timed_out", "lost"], "max_deferrals": 3},
		"rollback": {"timeout": 60000000000, "stop": 9000000000,
			"retry": {"limit": 1, "backoff": "constant", "min": 5000000000, "max": 60000000000, "on": null, "max_deferrals": 3}}
	}`, string(body))
	require.Equal(t, task.PolicyHash(6818376867337809335), policy().Hash("a"))
}

func TestPolicyHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := policies().Draw(t, "one"), policies().Draw(t, "other")
		require.Positive(t, p.Hash("a"), "a bigint column holds it, and 0 is none")
		require.Equal(t, cmp.Equal(p, q), p.Hash("a") == q.Hash("a"))
		require.NotEqual(t, p.Hash("a"), p.Hash("b"), "of equal policies each is known by its type's name")

		body, err := json.Marshal(p)
		require.NoError(t, err)
		var read task.Policy
		require.NoError(t, json.Unmarshal(body, &read))
		require.Empty(t, cmp.Diff(p, read))
		require.Equal(t, p.Hash("a"), read.Hash("a"))
	})
}

// policies generates policies of all kinds that a declaration can make, short of the lengths of a real one.
func policies() *rapid.Generator[task.Policy] {
	return rapid.Custom(func(t *rapid.T) task.Policy {
		seconds := func(from, to int, label string) time.Duration {
			return time.Duration(rapid.IntRange(from, to).Draw(t, label)) * time.Second
		}
		retry := func() task.Retry {
			return task.Retry{
				Limit:        rapid.IntRange(0, 3).Draw(t, "limit"),
				Backoff:      rapid.SampledFrom([]task.Backoff{task.Exponential, task.Constant}).Draw(t, "backoff"),
				Min:          seconds(0, 3, "min"),
				Max:          seconds(0, 60, "max"),
				On:           rapid.SliceOfDistinct(rapid.SampledFrom(task.DefaultOn()), rapid.ID[task.Verdict]).Draw(t, "on"),
				MaxDeferrals: rapid.IntRange(0, 3).Draw(t, "max_deferrals"),
			}
		}
		p := task.Policy{
			Timeout:   seconds(1, 30, "timeout"),
			Heartbeat: seconds(0, 10, "heartbeat"),
			Stop:      seconds(2, 10, "stop"),
			Check:     seconds(0, 5, "check"),
			Deadline:  seconds(0, 120, "deadline"),
			Retry:     retry(),
		}
		if rapid.Bool().Draw(t, "rollback") {
			p.Rollback = &task.RollbackPolicy{
				Timeout:   seconds(1, 30, "timeout"),
				Heartbeat: seconds(0, 10, "heartbeat"),
				Stop:      seconds(2, 10, "stop"),
				Retry:     retry(),
			}
		}
		return p
	})
}

func TestWindow(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy task.Policy
		phase  task.Phase
		want   time.Duration
	}{
		{"without a heartbeat the timeout is the silence", task.Policy{Timeout: 20 * time.Second, Stop: 7 * time.Second},
			task.Run, 28 * time.Second},
		{"with one, it is", task.Policy{Timeout: 20 * time.Second, Heartbeat: 5 * time.Second, Stop: 7 * time.Second},
			task.Run, 13 * time.Second},
		{"a check comes first", task.Policy{Timeout: 20 * time.Second, Stop: 7 * time.Second, Check: 3 * time.Second},
			task.Run, 31 * time.Second},
		{"a rollback has its own lengths, and no check", task.Policy{
			Timeout: 20 * time.Second, Stop: 7 * time.Second, Check: 3 * time.Second,
			Rollback: &task.RollbackPolicy{Timeout: time.Minute, Stop: 4 * time.Second},
		}, task.Rollback, 65 * time.Second},
		{"and its own heartbeat", task.Policy{
			Timeout:  20 * time.Second,
			Rollback: &task.RollbackPolicy{Timeout: time.Minute, Heartbeat: 2 * time.Second, Stop: 4 * time.Second},
		}, task.Rollback, 7 * time.Second},
		{"a rollback that is no longer declared has those of the run", task.Policy{
			Timeout: 20 * time.Second, Stop: 7 * time.Second, Check: 3 * time.Second,
		}, task.Rollback, 28 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, c.policy.Window(c.phase)) })
	}
}

func TestPingWindow(t *testing.T) {
	beating := task.Policy{
		Timeout: time.Hour, Heartbeat: 10 * time.Second, MaxHeartbeat: time.Minute, Stop: 7 * time.Second, Check: 3 * time.Second,
		Rollback: &task.RollbackPolicy{Timeout: time.Hour, Heartbeat: 20 * time.Second, MaxHeartbeat: 40 * time.Second},
	}
	short, silent, oneWay := beating, beating, beating
	short.MaxHeartbeat, silent.Heartbeat, oneWay.Rollback = 5*time.Second, 0, nil
	for _, c := range []struct {
		name        string
		policy      task.Policy
		phase       task.Phase
		asked, want time.Duration
	}{
		{"nothing asked for", beating, task.Run, 0, 10 * time.Second},
		{"a shorter window", beating, task.Run, time.Second, 10 * time.Second},
		{"a longer window", beating, task.Run, 30 * time.Second, 30 * time.Second},
		{"the longest window", beating, task.Run, time.Minute, time.Minute},
		{"more than the longest", beating, task.Run, 5 * time.Hour, time.Minute},
		{"a negative window", beating, task.Run, -time.Hour, 10 * time.Second},
		{"a longest window below the heartbeat", short, task.Run, 7 * time.Second, 10 * time.Second},
		{"no heartbeat", silent, task.Run, 30 * time.Second, 0},
		{"no heartbeat of the run, but of the rollback", silent, task.Rollback, 0, 20 * time.Second},
		{"a rollback has its own bounds", beating, task.Rollback, 5 * time.Hour, 40 * time.Second},
		{"a rollback that is no longer declared has those of the run", oneWay, task.Rollback, 5 * time.Hour, time.Minute},
		{"in a check none is due", beating, task.Check, 30 * time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, c.policy.PingWindow(c.phase, c.asked)) })
	}
}

func TestAttemptLength(t *testing.T) {
	p := task.Policy{Timeout: 20 * time.Second, Heartbeat: time.Second, Stop: 7 * time.Second, Check: 3 * time.Second}
	require.Equal(t, 24*time.Second, p.AttemptLength(task.Run))
	require.Equal(t, 21*time.Second, p.AttemptLength(task.Rollback), "no check, else as the run")
	p.Rollback = &task.RollbackPolicy{Timeout: time.Minute}
	require.Equal(t, 61*time.Second, p.AttemptLength(task.Rollback))
}

func TestLengthsOfACheck(t *testing.T) {
	p := task.Policy{Timeout: time.Minute, Heartbeat: time.Second, MaxHeartbeat: time.Minute, RequireProgress: true, Async: true, Stop: 7 * time.Second, Check: 3 * time.Second}
	timeout, heartbeat, stop := p.Lengths(task.Check)
	require.Equal(t, []time.Duration{3 * time.Second, 0, 7 * time.Second}, []time.Duration{timeout, heartbeat, stop})
	longest, progress, async := p.Liveness(task.Check)
	require.Zero(t, longest)
	require.False(t, progress)
	require.False(t, async)
}

func TestStopLength(t *testing.T) {
	require.Equal(t, 7*time.Second, task.StopLength(task.DefaultGrace))
}

func TestMaxAttempts(t *testing.T) {
	p := policy()
	require.Equal(t, 3, p.MaxAttempts(task.Run, 0))
	require.Equal(t, 9, p.MaxAttempts(task.Run, 9))
	require.Equal(t, 2, p.MaxAttempts(task.Rollback, 9), "a row's own limit is about the run")
	require.Equal(t, 3, oneWay().MaxAttempts(task.Rollback, 9))
}

func TestTypeNames(t *testing.T) {
	require.Equal(t, []string{"a"}, (&task.Type{Name: "a"}).Names())
	require.Equal(t, []string{"a", "b", "c"}, (&task.Type{Name: "a", Aliases: []string{"b", "c"}}).Names())
}
