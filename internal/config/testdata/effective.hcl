agent {
  name       = "billing-1"
  region     = "sg"
  workers    = 8
  listen     = "unix:///run/leasehold.sock"
  advertise  = "https://tasks.example:7070"
  poll       = "500ms"
  presence   = "1m30s"
  drain      = "0s"
  token      = env("TOKEN", "")
  read_token = env("SECRET")
  read_only  = true
}

store {
  url         = env("DATABASE_URL")
  schema      = "jobs"
  connections = 9
  notify      = false
  retention   = "1d12h"
  group       = null
}

task "invoice.send" {
  aliases          = ["send-invoice", "old/invoice"]
  timeout          = "30s"
  heartbeat        = "10s"
  max_heartbeat    = "25s"
  require_progress = true
  workers          = 4
  deadline         = "1h"
  spill_after      = null
  retry {
    limit         = 0
    backoff       = "constant"
    min           = "2s"
    max           = "1m"
    on            = ["failed", "lost"]
    after         = { failed = "0s", lost = "1h" }
    max_deferrals = 5
  }
  check {
    timeout = "3s"
    webhook {
      url             = "${env("BASE")}/done/${task.data.invoice}"
      method          = "POST"
      headers         = {}
      secret          = env("SECRET")
      body            = "envelope"
      idempotency_key = false
      permanent       = []
      cancel_grace    = "4s"
    }
  }
  webhook {
    url             = "${env("BASE")}/${task.type}/${task.data.invoice}"
    method          = "PUT"
    headers         = { X-Team = "billing", Authorization = "Bearer ${env("TOKEN")}", X-Id = task.id }
    secret          = [env("SECRET"), file("DIR/old.secret")]
    body            = "payload"
    idempotency_key = true
    permanent       = [400, 404]
    async           = true
    cancel_grace    = "1s"
  }
  rollback {
    timeout          = "2m"
    heartbeat        = "20s"
    max_heartbeat    = "1m"
    require_progress = true
    retry {
      limit         = 5
      backoff       = "constant"
      min           = "3s"
      max           = "9s"
      after         = {}
      max_deferrals = 7
    }
    webhook {
      url             = "${env("BASE")}/undo/${task.data.invoice}"
      method          = "POST"
      headers         = {}
      secret          = []
      body            = "envelope"
      idempotency_key = false
      permanent       = []
      async           = true
      cancel_grace    = "6s"
    }
  }
}

task "video.resize" {
  aliases     = []
  timeout     = "20s"
  heartbeat   = null
  workers     = 8
  deadline    = null
  spill_after = null
  retry {
    limit         = 2
    backoff       = "exponential"
    min           = "1s"
    max           = "5m"
    on            = ["failed", "stalled", "timed_out", "lost"]
    after         = {}
    max_deferrals = 100
  }
  check {
    timeout = "5s"
    command {
      argv        = ["./resized.py", "${task.data.file}"]
      dir         = "DIR"
      env         = {}
      user        = null
      exit_codes  = {}
      stop_signal = "TERM"
      stop_grace  = "5s"
    }
  }
  command {
    argv        = ["./resize.py", "--in=${task.data.file}", "${task.data.mode}"]
    dir         = "DIR/scripts"
    env         = { MODE = "fast", API_KEY = env("TOKEN") }
    user        = "nobody"
    exit_codes  = { 7 = "deferred", 9 = "succeeded", 42 = "rejected" }
    stop_signal = "SIGINT"
    stop_grace  = "500ms"
  }
  rollback {
    timeout   = "20s"
    heartbeat = null
    retry {
      limit         = 2
      backoff       = "exponential"
      min           = "1s"
      max           = "5m"
      after         = {}
      max_deferrals = 100
    }
    command {
      argv        = ["./restore.py", "${task.data.file}"]
      dir         = "DIR"
      env         = {}
      user        = null
      exit_codes  = {}
      stop_signal = "TERM"
      stop_grace  = "1s"
    }
  }
}

schedule "nightly" {
  task     = "video.resize"
  cron     = "0 3 * * mon-fri"
  every    = null
  after    = null
  timezone = env("ZONE", "Asia/Singapore")
  payload  = { kind = "daily", n = 9007199254740993, parts = [{ a = null, "odd name" = true }, 1.50, -7], api_key = env("TOKEN") }
  jitter   = "90s"
  from     = "2026-12-01T00:00:00Z"
  until    = "2027-12-01T08:00:00+08:00"
  missed   = "all"
  catch_up = "36h"
  overlap  = "queue"
}

schedule "often" {
  task     = "send-invoice"
  cron     = null
  every    = "15m"
  after    = null
  timezone = null
  payload  = {}
  jitter   = "0s"
  from     = null
  until    = null
  missed   = "one"
  catch_up = "1d"
  overlap  = "skip"
}

chunks "invoices" {
  task   = "old/invoice"
  size   = { target = env("TARGET", "5s"), start = 500, min = 100, max = 500 }
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
  task   = "video.resize"
  size   = 1000
  ahead  = 64
  follow = null
  source {
    url   = null
    table = "video"
    key   = "uuid"
    where = null
  }
}
