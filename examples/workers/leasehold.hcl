# One worker in six languages. Each is started once, when a task is due, and runs one task after another.

store {
  url = env("DATABASE_URL", "sqlite:leasehold.db")
}

task "hello.python" {
  command {
    argv = ["python3", "worker.py"]
    worker {
      processes = 2
    }
  }
}

task "hello.node" {
  command {
    argv = ["node", "worker.js"]
    worker {
      processes = 2
    }
  }
}

task "hello.php" {
  command {
    argv = ["php", "worker.php"]
    worker {
      processes = 2
    }
  }
}

task "hello.ruby" {
  command {
    argv = ["ruby", "worker.rb"]
    worker {
      processes = 2
    }
  }
}

task "hello.shell" {
  command {
    argv = ["sh", "worker.sh"]
    worker {
      processes = 2
    }
  }
}

task "hello.go" {
  command {
    argv = [env("GO_WORKER", "./worker")]
    worker {
      processes = 2
    }
  }
}
