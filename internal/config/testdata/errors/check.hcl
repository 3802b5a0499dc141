task "a" {
  check {
    heartbeat = "1s"
    timeout   = "1ms"
    retry {
    }
    webhook {
      url   = "http://127.0.0.1/"
      async = true
    }
  }
  command {
    argv = ["true"]
  }
}

task "b" {
  check {
  }
  check {
    timeout = 5
  }
  command {
    argv = ["true"]
  }
}

task "c" {
  check "x" {
    command {
      argv = ["true"]
    }
    webhook {
      url = "http://127.0.0.1/"
    }
  }
  command {
    argv = ["true"]
  }
}

task "d" {
  check = "true"
  command {
    argv = ["true"]
  }
}
