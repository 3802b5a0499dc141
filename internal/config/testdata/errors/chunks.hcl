chunks "events" {
  task       = "event process"
  size       = 0
  ahead      = 10001
  follow     = "500ms"
  chunk_size = 7
  payload    = {}
  source {
    url   = "mysql://app:geheim@db/app"
    table = ""
    key   = "a\nb"
    where = "WHERE status = 0"
    order = "id"
  }
  throttle {
  }
}

chunks "events" {
  follow = "30s"
  size   = { start = 10, min = 20, max = 1000001, Target = "5s", target = 5 }
  source {
    url   = ""
    table = "event"
    key   = "id"
  }
  throttle {
    oldest_transaction = "0s"
    when               = " "
  }
}

chunks {
  task = "event.process"
}

chunks "" {
  task   = task.type
  size   = { target = "2h", target = "5s", min = 20, max = 10, start = 20.5 }
  table  = "event"
  source = { table = "event" }
  throttle {
    query = "SELECT true"
  }
}

chunks "bounds" {
  task = "event.process"
  size = { target = "5s", start = 2000, max = 1000 }
  source {
    url   = "sqlite:events.db"
    table = "event"
    key   = "id"
    where = env("UNSET")
  }
  follow = "30s"
  throttle {
    oldest_transaction = "10m"
  }
}

chunks "values" {
  task = "event.process"
  size = { start = 1000 }
  source {
    table = env("UNSET")
    key   = 7
    where = "password = 'geheim'"
  }
  source {
    table = "event"
  }
}

chunks "kinds" {
  task   = "event.process"
  size   = "many"
  ahead  = "few"
  follow = 30
  source {
    url   = "postgres://app:geheim@db:x/app"
    where = "token=geheim ${task.key}"
  }
  throttle {
    when = null
  }
}

chunks "line\nbreak" {
  task = "event.process"
  size = { target = "5s", start = 50, min = 60 }
}

chunks "names" {
  task = "event.process"
  source {
    table = "event"
    key   = "id"
    where = <<-SQL
      where
        status = 0
    SQL
  }
  throttle {
    when = "(redacted)"
  }
}
