# The smallest file that does something: the task is what comes in, and what goes out is its result.

task "hello" {
  command {
    argv = ["sh", "-c", "cat; echo done > $LEASEHOLD_RESULT_FILE"]
  }
}
