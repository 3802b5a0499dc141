# A subprocess. The envelope comes on its standard input, what identifies the task in its environment, and its exit
# code says how it went.

task "video.resize" {
  timeout = "10m"
  workers = 2

  command {
    argv = ["sh", "-c", "nice ffmpeg -i \"$1\" -vf scale=640:-2 \"$1.small.mp4\"", "resize", "${task.data.file}"]
    env  = { LC_ALL = "C.UTF-8" } # beside PATH, HOME, LANG, TZ, TMPDIR and what begins with LEASEHOLD_

    exit_codes = { 3 = "rejected" } # beside 64 and 65: trying again would not help

    # Stopping is SIGTERM to it and all that it has started, and SIGKILL ten seconds later.
    stop_signal = "TERM"
    stop_grace  = "10s"
  }

  # Where it fails for good or is cancelled, nothing half done stays behind.
  rollback {
    command {
      argv = ["rm", "-f", "${task.data.file}.small.mp4"]
    }
  }
}
