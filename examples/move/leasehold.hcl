# Moves services to another availability zone, as one batch. The rows contain which service moves where.

store {
  url = env("DATABASE_URL", "sqlite:leasehold.db")
}

task "service.move" {
  workers = 8 # concurrent moves on this agent
  timeout = "10s"

  # Runs before each attempt. {"done": true} completes the task without running it: the service is already in the new zone,
  # because an operator moved it by hand. Such a task was never started, so a rollback of the batch does not move its service.
  check {
    timeout = "2s"

    webhook {
      url    = "${env("APP_URL", "http://127.0.0.1:8080")}/tasks/check"
      secret = env("WEBHOOK_SECRET", "whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA==")
    }
  }

  webhook {
    url    = "${env("APP_URL", "http://127.0.0.1:8080")}/tasks/move"
    secret = env("WEBHOOK_SECRET", "whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA==")
  }

  # Reverts a move. It receives the row's rollback_payload: the service's old zone and address. It runs for tasks that were
  # started and then failed or were cancelled, and, when the batch is rolled back, for tasks that had succeeded. It has its own
  # timeout and attempts: a rollback deserves more of both than a move.
  rollback {
    timeout = "20s"

    retry {
      limit = 10
    }

    webhook {
      url    = "${env("APP_URL", "http://127.0.0.1:8080")}/tasks/undo"
      secret = env("WEBHOOK_SECRET", "whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA==")
    }
  }
}

# The batch's finish_type: when the batch ends, one task of this type reports the counts.
task "move.finished" {
  webhook {
    url    = "${env("APP_URL", "http://127.0.0.1:8080")}/tasks/finished"
    secret = env("WEBHOOK_SECRET", "whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA==")
  }
}
