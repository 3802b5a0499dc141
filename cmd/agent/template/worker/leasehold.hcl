# What this agent runs. `leasehold validate` checks it, `leasehold dev` runs it.

task "hello" {
  timeout = "30s" # of one attempt

  retry {
    limit = 2 # attempts after the first
  }

  command {
    argv = [ARGV]

    worker { # started once, it runs many attempts
      processes = 2
    }
  }
}
