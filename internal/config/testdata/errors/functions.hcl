store {
  url = env("DATABASE_URL")
}

task "a" {
  timeout = lowr("30S")
  command {
    argv = ["echo", file("missing.txt"), file("files"), env(), env("A", "b", "c"), env(""), tonumber("1e999999"), format("%99999s", "x"), "${"1e99999" + 1}", timestamp()]
    env  = { A = base64decode("!"), B = base64decode("/w=="), C = jsondecode("{"), D = jsondecode("1 2") }
  }
}
