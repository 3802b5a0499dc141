task "soon" {
  spill_after = "500ms"
  command {
    argv = ["true"]
  }
}

task "never" {
  spill_after = "never"
  command {
    argv = ["true"]
  }
}
