agent {
  token      = "geheim"
  read_token = " geheim "
}
