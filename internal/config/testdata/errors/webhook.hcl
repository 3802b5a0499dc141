task "a" {
  webhook {
    method          = "GET"
    headers         = { Content-Type = "text/plain", webhook-id = "1", Leasehold-Task = "2", "X Y" = "3", x-a = "4", X-A = "5", B = "a\nb" }
    secret          = "my password"
    body            = "json"
    idempotency_key = 1
    permanent       = [200, 400, "many"]
    cancel_grace    = "2h"
    retries         = 3
  }
}

task "b" {
  webhook {
    url     = "http://127.0.0.1:8080/"
    headers = { Idempotency-Key = "mine" }
    secret  = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "c2hvcnQ=", ""]

    idempotency_key = true
  }
}

task "c" {
  webhook {
    url     = "http://127.0.0.1:8080/"
    headers = ["X-A"]
    secret  = "(redacted)"
  }
}
