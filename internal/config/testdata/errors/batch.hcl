task "a" {
  check {
    webhook {
      url = "http://127.0.0.1:8080/done"
      batch {}
    }
  }
  webhook {
    url             = "http://127.0.0.1:8080/${task.id}"
    headers         = { X-Team = "billing", X-Id = "${task.id}" }
    body            = "payload"
    idempotency_key = true
    async           = true
    batch {
      max  = 1001
      wait = "251ms"
      size = 3
    }
  }
}

task "b" {
  webhook {
    url = "http://127.0.0.1:8080/b"
    batch {
      max  = 0
      wait = 10
    }
  }
}
