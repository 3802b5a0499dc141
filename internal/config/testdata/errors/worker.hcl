task "a" {
  command {
    argv = ["python3", "worker.py", "${task.id}"]
    env  = { FILE = "${task.data.file}", MODE = "fast" }
    worker {
      processes = 0
      idle      = "1ms"
      max_tasks = -1
      ready     = 10
      threads   = 4
    }
  }
}
