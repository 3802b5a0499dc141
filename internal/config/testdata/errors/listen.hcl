agent {
  name     = ""
  listen   = "unix://leasehold.sock"
  presence = "3650000d"
  poll     = "1 s"
  drain    = "-1s"
  workers  = 1.5
}
