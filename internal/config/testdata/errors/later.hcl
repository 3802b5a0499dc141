task "video.resize" {
  spill_after = "5m"
  on_failed   = "dead"
  redact      = ["card"]
  tenant {
    limit = 3
  }
  sequence {
    on_failure = "block"
  }
  retry {
    after = { lost = "5m" }
  }
  webhook {
    url = "http://127.0.0.1:8080/"
  }
}
