package config

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/task"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestDefaults(t *testing.T) {
	dir := write(t, map[string]string{"leasehold.hcl": `
task "hello" {
  command {
    argv = ["sh", "-c", "cat"]
  }
}

task "call" {
  webhook {
    url = "http://127.0.0.1:8080/"
  }
}
`})
	cfg, err := Load([]string{filepath.Join(dir, "leasehold.hcl")}, options(nil))
	require.NoError(t, err)
	require.Equal(t, Agent{
		Name: "host-1", Workers: 32, Listen: "127.0.0.1:7070",
		Poll: time.Second, Presence: 15 * time.Second, Drain: 20 * time.Second,
	}, cfg.Agent)
	require.Equal(t, Store{
		URL: "sqlite:" + filepath.Join(dir, "leasehold.db"), Schema: "leasehold", Connections: 4, Notify: true,
		Retention: 7 * 24 * time.Hour,
	}, cfg.Store)
	require.Len(t, cfg.Tasks, 2)
	policy := task.Policy{
		Timeout: 20 * time.Second, Stop: 7 * time.Second,
		Retry: task.Retry{
			Limit: 2, Backoff: task.Exponential, Min: time.Second, Max: 5 * time.Minute, MaxDeferrals: 100,
			On: []task.Verdict{task.Failed, task.Stalled, task.TimedOut, task.Lost},
		},
	}
	for _, typ := range cfg.Tasks {
		require.Equal(t, policy, typ.Policy)
		require.Equal(t, 32, typ.Workers)
		require.Empty(t, typ.Aliases)
	}
	require.Equal(t, filepath.Join(dir, "leasehold.hcl")+":2", cfg.Tasks[0].Source)

	c := cfg.Tasks[0].Target.(*task.Command)
	require.Len(t, c.Argv, 3)
	require.Equal(t, dir, c.Dir)
	require.Empty(t, c.Env)
	require.Empty(t, c.User)
	require.Empty(t, c.ExitCodes)
	require.Equal(t, syscall.SIGTERM, c.StopSignal)
	require.Equal(t, 5*time.Second, c.StopGrace)

	w := cfg.Tasks[1].Target.(*task.Webhook)
	require.Equal(t, "POST", w.Method)
	require.Empty(t, w.Headers)
	require.Empty(t, w.Secrets)
	require.Equal(t, task.BodyEnvelope, w.Body)
	require.False(t, w.IdempotencyKey)
	require.Empty(t, w.Permanent)
	require.Equal(t, 5*time.Second, w.CancelGrace)
}

const everything = `
agent {
  name      = "billing-1"
  region    = "sg"
  workers   = 8
  listen    = "unix:///run/leasehold.sock"
  advertise = "https://tasks.example:7070"
  poll      = "500ms"
  presence  = "1m30s"
  drain     = "0s"
  token     = env("TOKEN", "")
  read_token = env("SECRET")
  read_only  = true
}

store {
  url         = env("DATABASE_URL")
  schema      = "jobs"
  connections = 9
  notify      = false
  retention   = "1d12h"
}

task "invoice.send" {
  aliases  = ["send-invoice", "old/invoice"]
  timeout  = "30s"
  heartbeat        = "10s"
  max_heartbeat    = "25s"
  require_progress = true
  workers  = 4
  deadline = "1h"
  retry {
    limit      = 0
    backoff    = "constant"
    min        = "2s"
    max        = "1m"
    on         = ["failed", "lost"]
    after      = { lost = "1h", failed = "0s" }
    max_deferrals = 5
  }
  check {
    timeout = "3s"
    webhook {
      url          = "${env("BASE")}/done/${task.data.invoice}"
      secret       = env("SECRET")
      cancel_grace = "4s"
    }
  }
  rollback {
    timeout          = "2m"
    heartbeat        = "20s"
    max_heartbeat    = "1m"
    require_progress = true
    retry {
      limit      = 5
      backoff    = "constant"
      min        = "3s"
      max        = "9s"
      max_deferrals = 7
    }
    webhook {
      url          = "${env("BASE")}/undo/${task.data.invoice}"
      async        = true
      cancel_grace = "6s"
    }
  }
  webhook {
    url             = "${env("BASE")}/${task.type}/${task.data.invoice}"
    method          = "PUT"
    headers         = { X-Team = "billing", Authorization = "Bearer ${env("TOKEN")}", X-Id = task.id }
    secret          = [env("SECRET"), file("old.secret")]
    body            = "payload"
    idempotency_key = true
    permanent       = [400, 404]
    async           = true
    cancel_grace    = "1s"
  }
}

task "video.resize" {
  command {
    argv        = ["./resize.py", "--in=${task.data.file}", "${task.data.mode}"]
    dir         = "scripts"
    env         = { MODE = "fast", API_KEY = env("TOKEN") }
    user        = "nobody"
    exit_codes  = { 42 = "rejected", 7 = "deferred", 9 = "succeeded" }
    stop_signal = "SIGINT"
    stop_grace  = "500ms"
  }
  check {
    command {
      argv = ["./resized.py", "${task.data.file}"]
    }
  }
  rollback {
    command {
      argv       = ["./restore.py", "${task.data.file}"]
      stop_grace = "1s"
    }
  }
}

schedule "nightly" {
  task     = "video.resize"
  cron     = "0 3 * * mon-fri"
  timezone = env("ZONE", "Asia/Singapore")
  payload  = {
    kind    = "daily"
    n       = 9007199254740993
    parts   = [{ a = null, "odd name" = true }, 1.50, -7]
    api_key = env("TOKEN")
  }
  jitter   = "90s"
  from     = "2026-12-01T00:00:00Z"
  until    = "2027-12-01T08:00:00+08:00"
  missed   = "all"
  catch_up = "36h"
  overlap  = "queue"
}

schedule "often" {
  task  = "send-invoice"
  every = "15m"
}

chunks "invoices" {
  task   = "old/invoice"
  size   = { target = env("TARGET", "5s"), max = 500 }
  ahead  = 8
  follow = "30s"
  source {
    url   = env("DATABASE_URL")
    table = "public.invoice"
    key   = "id"
    where = <<-SQL
      sent = false
        AND region = '${env("REGION", "sg")}'
    SQL
  }
  throttle {
    oldest_transaction = "10m"
    when               = "SELECT count(*) > 100 FROM other_work"
  }
}

chunks "videos" {
  task = "video.resize"
  source {
    table = "video"
    key   = "uuid"
  }
}
`

func everythingEnv() map[string]string {
	return map[string]string{
		"TOKEN": "tok", "DATABASE_URL": "postgres://app:pw@db/app", "SECRET": secret, "BASE": "http://127.0.0.1:8080/base",
	}
}

func TestEverything(t *testing.T) {
	dir := write(t, map[string]string{"a.hcl": everything, "old.secret": secret + "\n"})
	cfg, err := Load([]string{dir}, options(everythingEnv()))
	require.NoError(t, err, report(err))
	require.Equal(t, Agent{
		Name: "billing-1", Region: "sg", Workers: 8, Listen: "unix:///run/leasehold.sock", Advertise: "https://tasks.example:7070",
		Poll: 500 * time.Millisecond, Presence: 90 * time.Second, Token: "tok",
		ReadToken: secret, ReadOnly: true,
	}, cfg.Agent)
	require.Equal(t, Store{
		URL: "postgres://app:pw@db/app", Schema: "jobs", Connections: 9, Retention: 36 * time.Hour,
	}, cfg.Store)

	invoice := cfg.Type("old/invoice")
	require.Same(t, cfg.Tasks[0], invoice)
	require.Nil(t, cfg.Type("nothing"))
	require.Equal(t, []string{"invoice.send", "send-invoice", "old/invoice"}, invoice.Names())
	require.Equal(t, 4, invoice.Workers)
	require.Equal(t, task.Policy{
		Timeout: 30 * time.Second, Stop: 6 * time.Second, Deadline: time.Hour, Check: 3 * time.Second, // the check's grace is longer
		Heartbeat: 10 * time.Second, MaxHeartbeat: 25 * time.Second, RequireProgress: true, Async: true,
		Retry: task.Retry{
			Backoff: task.Constant, Min: 2 * time.Second, Max: time.Minute, MaxDeferrals: 5,
			On: []task.Verdict{task.Failed, task.Lost}, After: map[task.Verdict]time.Duration{task.Lost: time.Hour, task.Failed: 0},
		},
		Rollback: &task.RollbackPolicy{
			Timeout: 2 * time.Minute, Stop: 8 * time.Second,
			Heartbeat: 20 * time.Second, MaxHeartbeat: time.Minute, RequireProgress: true, Async: true,
			Retry: task.Retry{Limit: 5, Backoff: task.Constant, Min: 3 * time.Second, Max: 9 * time.Second, MaxDeferrals: 7},
		},
	}, invoice.Policy)
	w := invoice.Target.(*task.Webhook)
	r := row(`{"invoice": 7, "file": "a b", "mode": "-x"}`)
	require.Equal(t, "http://127.0.0.1:8080/base/invoice.send/7", eval(t, w.URL, r))
	require.Equal(t, "PUT", w.Method)
	require.Equal(t, "billing", eval(t, w.Headers["X-Team"], r))
	require.Equal(t, "Bearer tok", eval(t, w.Headers["Authorization"], r))
	require.Equal(t, "9007199254740993", eval(t, w.Headers["X-Id"], r))
	require.Equal(t, []string{secret, secret}, w.Secrets)
	require.Equal(t, task.BodyPayload, w.Body)
	require.True(t, w.IdempotencyKey)
	require.Equal(t, []int{400, 404}, w.Permanent)

	check := invoice.Check.(*task.Webhook)
	require.Equal(t, "http://127.0.0.1:8080/base/done/7", eval(t, check.URL, r))
	require.Equal(t, []string{secret}, check.Secrets)
	rollBack := invoice.Rollback.(*task.Webhook)
	back := row(`{"invoice": 7}`)
	back.State, back.RollbackPayload = task.StateRollbackRunning, []byte(`{"invoice": 6}`)
	require.Equal(t, "http://127.0.0.1:8080/base/undo/6", eval(t, rollBack.URL, back), "task.data is what a rollback works on")
	require.True(t, rollBack.Async)

	video := cfg.Type("video.resize")
	require.Equal(t, "a b", eval(t, video.Check.(*task.Command).Argv[1].Template, r))
	require.Equal(t, 5*time.Second, video.Policy.Check)
	require.Equal(t, "a b", eval(t, video.Rollback.(*task.Command).Argv[1].Template, r))
	require.Equal(t, &task.RollbackPolicy{
		Timeout: 20 * time.Second, Stop: 3 * time.Second,
		Retry: task.Retry{Limit: 2, Backoff: task.Exponential, Min: time.Second, Max: 5 * time.Minute, MaxDeferrals: 100},
	}, video.Policy.Rollback)

	c := video.Target.(*task.Command)
	require.Equal(t, filepath.Join(dir, "scripts"), c.Dir)
	require.Equal(t, "./resize.py", eval(t, c.Argv[0].Template, r))
	require.Equal(t, "--in=a b", eval(t, c.Argv[1].Template, r))
	require.True(t, c.Argv[1].Dash)
	require.Equal(t, "-x", eval(t, c.Argv[2].Template, r))
	require.False(t, c.Argv[2].Dash)
	require.Equal(t, "fast", eval(t, c.Env["MODE"], r))
	require.Equal(t, "tok", eval(t, c.Env["API_KEY"], r))
	require.Equal(t, "nobody", c.User)
	require.Equal(t, map[int]task.Verdict{42: task.Rejected, 7: task.Deferred, 9: task.Succeeded}, c.ExitCodes)
	require.Equal(t, syscall.SIGINT, c.StopSignal)
	require.Equal(t, 7*time.Second, video.Policy.Stop, "as long as its check may take to stop")
	require.Equal(t, 8, cfg.Type("video.resize").Workers)

	for _, w := range cfg.Warnings {
		require.NotContains(t, w.Text, "which no task block", "names and aliases are declared")
	}
	require.Equal(t, []schedule.Spec{{
		Name: "nightly", Task: "video.resize", Cron: "0 3 * * mon-fri", Timezone: "Asia/Singapore", Jitter: "90s",
		Payload: []byte(`{"api_key":"tok","kind":"daily","n":9007199254740993,"parts":[{"a":null,"odd name":true},1.5,-7]}`),
		From:    "2026-12-01T00:00:00Z", Until: "2027-12-01T08:00:00+08:00", Missed: "all", CatchUp: "36h", Overlap: "queue",
	}, {
		Name: "often", Task: "send-invoice", Every: "15m", Jitter: "0s", Payload: []byte(`{}`), Missed: "one", CatchUp: "1d", Overlap: "skip",
	}}, cfg.Schedules)
	require.Equal(t, []Chunks{{
		Spec: chunk.Spec{
			Name: "invoices", Task: "old/invoice", Table: "public.invoice", Key: "id",
			Size: chunk.Size{Start: 500, Min: 100, Max: 500, Target: 5 * time.Second}, Ahead: 8,
			Follow: 30 * time.Second,
		},
		Source: ChunkSource{
			URL: "postgres://app:pw@db/app", Where: "sent = false\n  AND region = 'sg'",
			OldestTransaction: 10 * time.Minute, When: "SELECT count(*) > 100 FROM other_work",
		},
	}, {
		Spec: chunk.Spec{Name: "videos", Task: "video.resize", Table: "video", Key: "uuid", Size: chunk.Size{Start: 1000}, Ahead: 64},
	}}, cfg.Chunks)
}

func eval(t testing.TB, f task.Template, r *task.Task) string {
	t.Helper()
	s, err := f(r)
	require.NoError(t, err)
	return s
}

func TestWithoutHostname(t *testing.T) {
	dir := write(t, map[string]string{"leasehold.hcl": taskA, "named.hcl": taskA + "agent {\n  name = \"x\"\n}\n"})
	opts := Options{Hostname: func() (string, error) { return "", errors.New("none") }}
	_, err := Load([]string{filepath.Join(dir, "leasehold.hcl")}, opts)
	require.ErrorContains(t, err, "declare agent { name")
	_, err = Load([]string{filepath.Join(dir, "named.hcl")}, opts)
	require.NoError(t, err)
}

func TestRetryDelaysFollowEachOther(t *testing.T) {
	for text, want := range map[string][2]time.Duration{
		`max = "100ms"`: {100 * time.Millisecond, 100 * time.Millisecond},
		`min = "10m"`:   {10 * time.Minute, 10 * time.Minute},
		`min = "0s"`:    {0, 5 * time.Minute},
	} {
		cfg := mustLoad(t, "task \"a\" {\n  retry {\n    "+text+"\n  }\n  command {\n    argv = [\"x\"]\n  }\n}\n", nil)
		require.Equal(t, want, [2]time.Duration{cfg.Tasks[0].Policy.Retry.Min, cfg.Tasks[0].Policy.Retry.Max}, text)
	}
}

func TestValuesFromTheEnvironmentConvert(t *testing.T) {
	cfg := mustLoad(t, `
agent {
  workers = env("WORKERS")
  poll    = env("POLL", null)
  token   = file("leasehold.hcl") == "" ? "" : env("NONE", null)
}

store {
  notify = env("NOTIFY")
  url    = env("URL", null)
}
`, map[string]string{"WORKERS": "7", "NOTIFY": "false"})
	require.Equal(t, 7, cfg.Agent.Workers)
	require.Equal(t, time.Second, cfg.Agent.Poll, "null is as if it were not written")
	require.False(t, cfg.Store.Notify)
	require.Empty(t, cfg.Agent.Token)
	require.True(t, strings.HasPrefix(cfg.Store.URL, "sqlite:/"))
}

func TestFunctionTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range Functions() {
		require.False(t, seen[f.Name], f.Name)
		seen[f.Name] = true
		require.True(t, strings.HasPrefix(f.Usage, f.Name+"("), f.Usage)
		require.NotEmpty(t, f.Does)
	}
	require.False(t, seen[operandName])
}
