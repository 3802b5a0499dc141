task {
}

task "two" "labels" {
}

task "bad name" {
  command {
    argv = ["true"]
  }
}

task "untargeted" {
  timeot = "30s"
}

task "bursty" {
  burst = 5
  webhook {
    url = "http://127.0.0.1:8080/"
  }
}

task "both" {
  timeout  = "0s"
  workers  = 0
  limit    = 0
  rate     = "100"
  burst    = 0
  deadline = "soon"
  webhook {
    url = "http://127.0.0.1:8080/"
  }
  command {
    argv = ["true"]
  }
}

task "mixed" {
  retry   = { limit = 3 }
  timeout {
  }
  command {
    argv = ["true"]
  }
  command {
    argv = ["false"]
  }
}
