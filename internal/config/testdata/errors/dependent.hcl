# One mistake in each task: what depends on a value with a mistake is not looked at.
agent {
  listen    = "0.0.0.0:7070"
  advertise = 7
}

task "timeout" {
  timeout   = "5 s"
  heartbeat = "10s"
  webhook {
    url = "http://app.internal/tasks"
  }
  rollback {
    timeout   = 5
    heartbeat = "10s"
    webhook {
      url = "http://app.internal/rollbacks"
    }
  }
}

task "heartbeat" {
  timeout          = "1m"
  heartbeat        = 10
  max_heartbeat    = "20s"
  require_progress = true
  command {
    argv = ["true"]
  }
}

task "max_heartbeat" {
  heartbeat     = "10s"
  max_heartbeat = "20 s"
  command {
    argv = ["true"]
  }
}

task "unknown" {
  timeout   = enw("TIMEOUT")
  heartbeat = "1d"
  command {
    argv = ["true"]
  }
}

task "max" {
  retry {
    min = "10s"
    max = "1 m"
  }
  command {
    argv = ["true"]
  }
}

task "on" {
  retry {
    on    = ["fialed"]
    after = { failed = "1m" }
  }
  command {
    argv = ["true"]
  }
}

chunks "max" {
  task = "on"
  size = { target = "5s", min = 60, max = 0 }
  source {
    table = "event"
    key   = "id"
  }
}
