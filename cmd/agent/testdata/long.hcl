agent {
  name = "billing-1"
}

store {
  url = "sqlite:/var/lib/leasehold/leasehold.db"
}

task "invoice.send" {
  aliases = ["a-name-of-the-same-type-that-is-long", "and-another-one-which-is-longer-still-than-that"]
  timeout = "30s"
  webhook {
    url     = "http://127.0.0.1:8080/a/very/long/path/to/the/place/where/invoices/are/sent/from"
    headers = { X-Team = "billing, and all who have to do with it in one way or another 北京" }
  }
}

task "report.build.for.the.whole.of.last.year" {
  command {
    argv = ["sh", "-c", "true"]
    dir  = "/srv"
  }
}

schedule "nightly-report-of-a-customer-with-a-long-name" {
  task     = "report.build.for.the.whole.of.last.year"
  cron     = "0,7,14,21,28 3,5,7 * * 1-5"
  timezone = "Asia/Singapore"
  payload  = { kind = "daily", of = "a customer with a long name, and all of its many subsidiaries" }
}

chunks "events-of-the-whole-of-last-year" {
  task = "report.build.for.the.whole.of.last.year"
  source {
    table = "event_with_a_long_name_for_all_of_last_year"
    key   = "id"
    where = "status = 0 AND created_at < '2026-01-01T00:00:00Z' AND customer IN (SELECT id FROM customer)"
  }
  follow = "30s"
}
