# Tasks whose effects happen exactly once, each in its own transactions.

store {
  url = env("DATABASE_URL", "postgres://127.0.0.1/app")
}

task "points.credit" {
  command {
    argv = ["python3", "postgres.py", "credit"]
    env  = { DATABASE_URL = env("DATABASE_URL", "postgres://127.0.0.1/app") }
  }
}

task "points.import" {
  timeout = "10m"
  command {
    argv = ["python3", "postgres.py", "import"]
    env  = { DATABASE_URL = env("DATABASE_URL", "postgres://127.0.0.1/app") }
  }
}

task "points.mirror" {
  timeout = "10m"
  command {
    argv = ["python3", "postgres.py", "mirror"]
    env  = { OTHER_DATABASE_URL = env("OTHER_DATABASE_URL", "postgres://127.0.0.1/other") }
  }
}
