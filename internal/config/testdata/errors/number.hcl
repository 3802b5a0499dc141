agent {
  workers = 1e999999999
}
