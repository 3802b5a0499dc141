agent {
  nmae      = "billing-1"
  region    = 7
  workers   = -1
  listen    = "7070"
  advertise = "http://127.0.0.1:7070/ping?x=1"
  poll      = 30
  presence  = "1s"
  drain     = "20"
  token     = 1 + "geheim"
  read_only = "perhaps"
}

agent "second" {
}
