store {
  url = "sqlite://leasehold.db"
}
