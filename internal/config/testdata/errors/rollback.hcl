task "a" {
  rollback {
    timeout   = "5s"
    heartbeat = "10s"
    deadline  = "1h"
    retry {
      limit = -1
      on    = ["failed"]
    }
    check {
    }
    webhook {
      url = "http://127.0.0.1/${task.dat.x}"
    }
  }
  command {
    argv = ["true"]
  }
}

task "b" {
  rollback {
    require_progress = true
  }
  command {
    argv = ["true"]
  }
}

task "c" {
  rollback {
    command {
      argv = [task.data.program]
    }
    workers = 3
  }
  webhook {
    url = "http://127.0.0.1/"
  }
}

rollback {
}
