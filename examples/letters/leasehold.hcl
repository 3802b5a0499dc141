# One long task, in six languages. Each says with every letter how far it is, and keeps the number as its checkpoint; none
# may be silent for longer than its heartbeat.

store {
  url = env("DATABASE_URL", "sqlite:leasehold.db")
}

task "letters.python" {
  timeout   = "1h"
  heartbeat = "3s"

  command {
    argv = ["python3", "letters.py"]
    env  = { OUTBOX = env("OUTBOX", "outbox.txt") }
  }
}

task "letters.shell" {
  timeout   = "1h"
  heartbeat = "3s"

  command {
    argv = ["sh", "letters.sh"]
    env  = { OUTBOX = env("OUTBOX", "outbox.txt") }
  }
}

task "letters.perl" {
  timeout   = "1h"
  heartbeat = "3s"

  command {
    argv = ["perl", "letters.pl"]
    env  = { OUTBOX = env("OUTBOX", "outbox.txt") }
  }
}

task "letters.java" {
  timeout   = "1h"
  heartbeat = "20s" # the first window begins with the process, and Java compiles the file before it runs

  command {
    argv = ["java", "-XX:TieredStopAtLevel=1", "Letters.java"]
    env  = { OUTBOX = env("OUTBOX", "outbox.txt") }
  }
}

# The answer is 202: the letters go out afterwards, without a connection.
task "letters.node" {
  timeout   = "1h"
  heartbeat = "5s"

  webhook {
    url          = "${env("NODE_URL", "http://127.0.0.1:8081")}/letters"
    async        = true
    cancel_grace = "1s"
  }
}

# The answer is a stream, and lasts as long as the task.
task "letters.php" {
  timeout   = "1h"
  heartbeat = "3s"

  webhook {
    url          = "${env("PHP_URL", "http://127.0.0.1:8082")}/letters"
    cancel_grace = "1s"
  }
}
