task "invoice.send" {
  tenant {
    weight = { acme = 0, "" = 1, beta = 1.5, gamma = 1001, delta = null }
    weihgt = {}
    limit  = 0
    rate   = "10 a second"
  }
  webhook {
    url = "http://127.0.0.1:8080/"
  }
}

task "invoice.print" {
  tenant {
    burst = 3
  }
  webhook {
    url = "http://127.0.0.1:8080/"
  }
}
