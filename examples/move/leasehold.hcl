# Moves services to another availability zone, many as one batch. What is to move where stands in the rows.

store {
  url = env("DATABASE_URL", "sqlite:leasehold.db")
}

task "service.move" {
  workers = 8 # so many services are on their way at once, on this agent
  timeout = "10s"

  # Asked before each attempt. {"done": true} settles the task, and nothing runs: the service is there already, because
  # somebody moved it by hand. Such a task was never started, so a rollback of the batch leaves its service where it is.
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

  # What takes a move back. It gets the row's rollback_payload: where the service stood before. It is called for what was
  # started and then failed or was called off, and, when the batch is rolled back, for what had succeeded. It has a
  # timeout and a budget of attempts of its own: a rollback is worth more patience than a move.
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

# The batch's finish_type: one task of it, when the batch has ended, with the counts.
task "move.finished" {
  webhook {
    url    = "${env("APP_URL", "http://127.0.0.1:8080")}/tasks/finished"
    secret = env("WEBHOOK_SECRET", "whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA==")
  }
}
