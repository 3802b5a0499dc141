task "video.resize" {
  heartbeat        = "20s"
  max_heartbeat    = "10m"
  require_progress = true
  limit            = 20
  spill_after      = "5m"
  webhook {
    url   = "http://127.0.0.1:8080/"
    async = true
  }
  check {
    timeout = "5s"
  }
  rollback {
    timeout = "5s"
  }
}

schedule "nightly" {
  task = "report.build"
}

chunks "events" {
  task = "event.process"
}
