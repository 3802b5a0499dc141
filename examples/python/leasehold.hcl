# The tasks of this application: one callback, one subprocess.

store {
  url = env("DATABASE_URL", "sqlite:leasehold.db")
}

task "greeting.send" {
  timeout = "10s"

  webhook {
    url    = "${env("APP_URL", "http://127.0.0.1:8080")}/greet"
    secret = env("WEBHOOK_SECRET", "whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA==")
  }
}

task "report.build" {
  timeout = "1m"

  command {
    argv = ["python3", "report.py"]
    env  = { DATABASE_URL = env("DATABASE_URL", "sqlite:leasehold.db") }
  }
}
