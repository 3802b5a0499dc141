# Many tasks in one request: the endpoint gets up to a hundred greetings at once, and ends each with a line of its response.

store {
  url = env("DATABASE_URL", "sqlite:leasehold.db")
}

task "greet" {
  timeout = "30s" # for the whole request

  webhook {
    url = env("BATCH_URL", "http://127.0.0.1:8080/cgi-bin/greet")
    batch {
      max  = 100
      wait = "10ms"
    }
  }
}
