task "a" {
  timeout = 
  command { argv = ["true"
}
