task "silent" {
  max_heartbeat    = "1m"
  require_progress = true
  command {
    argv = ["true"]
  }
}

task "longer" {
  timeout   = "10s"
  heartbeat = "20s"
  command {
    argv = ["true"]
  }
}

task "shorter" {
  timeout       = "1m"
  heartbeat     = "20s"
  max_heartbeat = "10s"
  command {
    argv = ["true"]
  }
}

task "tiny" {
  heartbeat = "1ms"
  command {
    argv = ["true"]
  }
}
