# One long task, in six languages. After each letter the task reports its progress, with the letter's number as its checkpoint.
# A task that does not report within its heartbeat has stalled.

store {
  url = env("DATABASE_URL", "sqlite:leasehold.db")
}

task "letters.python" {
  timeout   = "1h"
  heartbeat = "10s"

  command {
    argv = ["python3", "letters.py"]
    env  = { OUTBOX = env("OUTBOX", "outbox.txt") }
  }
}

task "letters.shell" {
  timeout   = "1h"
  heartbeat = "10s"

  command {
    argv = ["sh", "letters.sh"]
    env  = { OUTBOX = env("OUTBOX", "outbox.txt") }
  }
}

task "letters.perl" {
  timeout   = "1h"
  heartbeat = "10s"

  command {
    argv = ["perl", "letters.pl"]
    env  = { OUTBOX = env("OUTBOX", "outbox.txt") }
  }
}

task "letters.java" {
  timeout   = "1h"
  heartbeat = "1m" # the first window begins when the process starts, and Java compiles the file first: seconds on a busy machine

  command {
    argv = ["java", "-XX:TieredStopAtLevel=1", "Letters.java"]
    env  = { OUTBOX = env("OUTBOX", "outbox.txt") }
  }
}

# The response is 202: the task continues afterwards, without a connection.
task "letters.node" {
  timeout   = "1h"
  heartbeat = "5s"

  webhook {
    url          = "${env("NODE_URL", "http://127.0.0.1:8081")}/letters"
    async        = true
    cancel_grace = "1s"
  }
}

# The response is a stream that lasts as long as the task.
task "letters.php" {
  timeout   = "1h"
  heartbeat = "10s"

  webhook {
    url          = "${env("PHP_URL", "http://127.0.0.1:8082")}/letters"
    cancel_grace = "1s"
  }
}
