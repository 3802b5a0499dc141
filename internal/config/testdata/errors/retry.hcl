task "a" {
  retry {
    limit      = 1001
    backoff    = "exponentially"
    min        = "10m"
    max        = "5m"
    on         = ["failed", "rejected"]
    max_deferrals = "many"
    jitter     = true
  }
  retry {
  }
  command {
    argv = ["true"]
  }
}
