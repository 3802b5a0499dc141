task "invoice.send" {
  tenant {
    weight = { acme = 0, "" = 1, beta = 1.5, gamma = 1001, delta = null }
    weihgt = {}
  }
  webhook {
    url = "http://127.0.0.1:8080/"
  }
}
