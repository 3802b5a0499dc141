agent {
  listen = "unix:///run/leasehold.sock"
}

task "a" {
  command {
    argv = ["true"]
  }
}
