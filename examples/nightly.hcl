# A report every night, and a cleanup every quarter of an hour. Try it in two terminals, with
# export LEASEHOLD_CONFIG=examples/nightly.hcl in both: bin/leasehold run in one, and in the other
# bin/leasehold schedule list, bin/leasehold schedule show report, and bin/leasehold schedule fire report.

task "report.build" {
  timeout = "30m"

  command {
    # slot is the time that the report is for, whenever it is built: a schedule adds it to its payload.
    argv = ["sh", "-c", "echo \"building the $2 report of $1\"", "report", "${task.data.slot}", "${task.data.kind}"]
  }
}

task "cleanup" {
  timeout = "5m"

  command {
    argv = ["sh", "-c", "echo cleaning up"]
  }
}

schedule "report" {
  task     = "report.build"
  cron     = "0 3 * * *"
  timezone = "Asia/Singapore"
  payload  = { kind = "daily" }

  missed   = "all" # a report for each night, also for those when no agent was there
  catch_up = "7d"
  overlap  = "queue" # one after another
}

schedule "cleanup" {
  task   = "cleanup"
  every  = "15m"
  jitter = "1m" # not at the same second as all else that runs every quarter of an hour
}
