store {
  url         = "mysql://app:geheim@127.0.0.1/app"
  schema      = "Leasehold"
  connections = 0
  notify      = "perhaps"
  retention   = "0s"
  pool        = 4
}
