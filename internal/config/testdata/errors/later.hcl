task "video.resize" {
  on_failed   = "dead"
  redact      = ["card"]
  webhook {
    url = "http://127.0.0.1:8080/"
  }
}
