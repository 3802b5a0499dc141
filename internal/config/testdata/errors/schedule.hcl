schedule "nightly" {
  task     = "report.build"
  cron     = "0 25 * * *"
  timezone = "Mars/Phobos"
  payload  = { kind = "daily", slot = "2026-12-01", "kind" = "weekly" }
  jitter   = "1.5h"
  from     = "2026-12-01"
  missed   = "two"
  catch_up = "400d"
  overlap  = "Skip"
  tz       = "UTC"
  retries  = 3
}

schedule "nightly" {
  task  = "report build"
  every = "15m"
  after = "15m"
}

schedule {
  task = "report.build"
}

schedule "row" {
  task    = task.type
  cron    = "0 3 * * *"
  jitter  = "24h"
  payload = { tenant = "t-${task.key}", old = task.slot }
}

schedule "values" {
  cron     = env("UNSET")
  timezone = "Asia/Singapore"
  payload  = file("none.json")
  from     = "2026-12-01T00:00:00Z"
  until    = "2026-11-01T00:00:00Z"
}

schedule "none" {
  task    = "report.build"
  every   = 15
  payload = "{}"
}

schedule "secret" {
  task    = "report.build"
  payload = { token = "geheim", "api_key" = "geheim", n = missing, s = slot }
}

schedule "jitter" {
  task   = "report.build"
  cron   = "0,30 8-17 * * mon"
  jitter = "30m"
  until  = true
}

schedule "zone" {
  task     = "report.build"
  every    = "1d"
  timezone = "Asia/Singapore"
  payload  = merge({ slot = 1 }, {})
  overlap  = ["skip"]
}

schedule "" {
  task = ""
  cron = null
}
