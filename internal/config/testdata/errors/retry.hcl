task "a" {
  retry {
    limit      = 1001
    backoff    = "exponentially"
    min        = "10m"
    max        = "5m"
    on         = ["failed", "rejected"]
    after      = { failed = "1 m", lost = "5m", rejected = "1s", stalled = null }
    max_deferrals = "many"
    jitter     = true
  }
  retry {
  }
  command {
    argv = ["true"]
  }
}

task "narrow" {
  retry {
    on    = ["failed"]
    after = { lost = "5m", stalled = null }
  }
  command {
    argv = ["true"]
  }
}
