# Callbacks, with a signature and with retries.

task "invoice.send" {
  timeout  = "30s" # one attempt
  deadline = "1h"  # from due to done, all attempts together
  workers  = 8     # at once, on this agent

  retry {
    limit   = 5 # attempts after the first, after 2 s, 4 s, 8 s, …
    backoff = "exponential"
    min     = "2s"
    max     = "5m"
  }

  # What timed out may have been sent. So before each attempt the application is asked whether it was: {"done": true}, and
  # the task has succeeded without being run.
  check {
    timeout = "5s"
    webhook {
      url = "http://127.0.0.1:8080/sent/${task.data.invoice}"
    }
  }

  webhook {
    # A row's own data may fill path and query, escaped.
    url = "http://127.0.0.1:8080/tasks/${task.type}/${task.data.invoice}"

    headers = { X-Team = "billing" }

    # Signed as https://www.standardwebhooks.com says. During a rotation both sign: the new one, then the old one.
    secret = [
      env("WEBHOOK_SECRET", "whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA=="),
      env("WEBHOOK_SECRET_OLD", "whsec_dGhlIG9sZCBleGFtcGxlLCBub3QgYSBzZWNyZXQ="),
    ]

    permanent = [400] # beside 410 and 422: trying again would not help
  }
}

# An endpoint that was there before, and expects its own JSON and nothing else.
task "crm.update" {
  webhook {
    url             = "http://127.0.0.1:8080/crm"
    method          = "PUT"
    body            = "payload"
    idempotency_key = true
  }

  # Where that fails for good, is cancelled part-way, or is rolled back by somebody, the endpoint gets what stood there
  # before: the row's rollback_payload.
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
