# Tasks whose effects happen exactly once, each in its own transactions.

store {
  url = env("DATABASE_URL", "sqlite:leasehold.db")
}

task "points.credit" {
  command {
    argv = ["python3", "sqlite.py", "credit"]
    env  = { DATABASE_URL = env("DATABASE_URL", "sqlite:leasehold.db") }
  }
}

task "points.import" {
  timeout = "10m"
  command {
    argv = ["python3", "sqlite.py", "import"]
    env  = { DATABASE_URL = env("DATABASE_URL", "sqlite:leasehold.db") }
  }
}

task "points.mirror" {
  timeout = "10m"
  command {
    argv = ["python3", "sqlite.py", "mirror"]
    env  = { OTHER_DATABASE_URL = env("OTHER_DATABASE_URL", "sqlite:other.db") }
  }
}
