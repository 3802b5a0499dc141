# What this agent runs. `leasehold validate` checks it, `leasehold dev` runs it.

task "hello" {
  timeout = "30s" # of one attempt

  retry {
    limit = 2 # attempts after the first
  }

  command {
    argv = ["python3", "worker.py"]

    worker { # started once, it runs many attempts
      processes = 2
    }
  }
}
