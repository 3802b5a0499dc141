store {
  url = "postgres://app:ge%heim@127.0.0.1/app"
}
