task "video.resize" {
  limit       = 20
  spill_after = "5m"
  webhook {
    url = "http://127.0.0.1:8080/"
  }
}

schedule "nightly" {
  task = "report.build"
}

chunks "events" {
  task = "event.process"
}
