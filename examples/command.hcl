# A subprocess. It receives the envelope on its standard input and the task's identity in its environment. Its exit code is the
# outcome.

task "video.resize" {
  timeout = "10m"
  workers = 2

  command {
    argv = ["sh", "-c", "nice ffmpeg -i \"$1\" -vf scale=640:-2 \"$1.small.mp4\"", "resize", "${task.data.file}"]
    env  = { LC_ALL = "C.UTF-8" } # in addition to PATH, HOME, LANG, TZ, TMPDIR and LEASEHOLD_*

    exit_codes = { 3 = "rejected" } # in addition to 64 and 65: a retry would not help

    # To stop the command, the agent sends SIGTERM to it and all its processes, and SIGKILL ten seconds later.
    stop_signal = "TERM"
    stop_grace  = "10s"
  }

  # If the task fails for good or is cancelled, this removes a partial result.
  rollback {
    command {
      argv = ["rm", "-f", "${task.data.file}.small.mp4"]
    }
  }
}
