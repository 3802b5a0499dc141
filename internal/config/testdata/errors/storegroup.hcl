store {
  url   = "postgres://app@127.0.0.1/app"
  group = "www-data"
}
