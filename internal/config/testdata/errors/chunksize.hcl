chunks "sizes" {
  task = "event.process"
  size = merge({ target = "10ms" }, { rows = 7 })
  source {
    table = "event"
    key   = "id"
  }
  source "other" {
  }
}

chunks "more sizes" {
  task = "event.process"
  size = { target = "5s", start = 50, min = 60, max = [7] }
  source {
    table = "event"
    key   = "id"
    where = "a\u0000b"
  }
}

chunks "order" {
  task = "event.process"
  size = { target = "5s", min = 60, max = 50 }
  source {
    table = "event"
    key   = "id"
  }
}
