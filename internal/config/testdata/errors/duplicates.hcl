task "a" {
  aliases = ["b"]
  command {
    argv = ["true"]
  }
}

task "a" {
  command {
    argv = ["true"]
  }
}

task "b" {
  command {
    argv = ["true"]
  }
}

task "c" {
  aliases = ["d", "a", "d", "c", 7]
  command {
    argv = ["true"]
  }
}

store {
  schema = "one"
}

store {
  schema = "two"
}
