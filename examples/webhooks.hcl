# Callbacks with a signature and retries.

task "invoice.send" {
  timeout  = "30s" # one attempt
  deadline = "1h"  # from due to done, all attempts together
  workers  = 8     # at once, on this agent

  # Commands show these members of a payload as "(redacted)", at any depth. The application gets them.
  redact = ["email"]

  retry {
    limit   = 5 # attempts after the first, after 2 s, 4 s, 8 s, …
    backoff = "exponential"
    min     = "2s"
    max     = "5m"
  }

  # An attempt that timed out may have sent the invoice. So before each attempt the agent asks the application: if it responds
  # {"done": true}, the task has succeeded and is not run.
  check {
    timeout = "5s"
    webhook {
      url = "http://127.0.0.1:8080/sent/${task.data.invoice}"
    }
  }

  webhook {
    # Row data may fill the path and the query; it is escaped.
    url = "http://127.0.0.1:8080/tasks/${task.type}/${task.data.invoice}"

    headers = { X-Team = "billing" }

    # Requests are signed as https://www.standardwebhooks.com describes. During a rotation both keys sign, the new one first.
    secret = [
      env("WEBHOOK_SECRET", "whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA=="),
      env("WEBHOOK_SECRET_OLD", "whsec_dGhlIG9sZCBleGFtcGxlLCBub3QgYSBzZWNyZXQ="),
    ]

    permanent = [400] # in addition to 410 and 422: a retry would not help
  }
}

# An existing endpoint that expects its own JSON.
task "crm.update" {
  webhook {
    url             = "http://127.0.0.1:8080/crm"
    method          = "PUT"
    body            = "payload"
    idempotency_key = true
  }

  # If the task fails for good, is cancelled part-way, or is rolled back by an operator, the endpoint receives the row's
  # rollback_payload, which contains the state before the change.
  rollback {
    retry {
      limit = 5
    }
    webhook {
      url             = "http://127.0.0.1:8080/crm"
      method          = "PUT"
      body            = "payload"
      idempotency_key = true
    }
  }
}
