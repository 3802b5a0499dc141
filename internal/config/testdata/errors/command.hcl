task "a" {
  command {
    argv        = "true"
    dir         = ""
    env         = { LEASEHOLD_TYPE = "1", NOTIFY_SOCKET = "2", "a b" = "3", OK = ["list"] }
    user        = ""
    exit_codes  = { 0 = "succeeded", 256 = "failed", 7 = "cancelled", x = "failed" }
    stop_signal = "STOP"
    stop_grace  = "5"
    shell       = true
  }
}

task "b" {
  command {
  }
}

task "c" {
  command {
    argv = []
  }
}

task "d" {
  command {
    argv = ["${task.data.program}", 7, null, ["x"]]
  }
}
