# Processes every row of the table event, and goes on as rows are added. The store and the table may be in one database or in two.

store {
  url = env("DATABASE_URL", "sqlite:leasehold.db")
}

task "event.process" {
  workers = 4 # chunks that this agent processes at once
  timeout = "1m"

  webhook {
    url    = "${env("APP_URL", "http://127.0.0.1:8080")}/events"
    secret = env("WEBHOOK_SECRET", "whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA==")
  }
}

chunks "events" {
  task = "event.process"

  source {
    url   = env("APP_DATABASE_URL", "sqlite:events.db")
    table = "event"
    key   = "id"
    where = "status = 0" # false once a row is processed, so that follow finds only what is new or left over
  }

  size   = { target = "500ms", start = 200 } # chunks grow until each takes about half a second
  ahead  = 48                                # enough for all agents until the next look
  follow = "1s"
}
