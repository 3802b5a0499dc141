# The smallest complete file: the command reads the envelope and writes a result.

task "hello" {
  command {
    argv = ["sh", "-c", "cat; echo done > $LEASEHOLD_RESULT_FILE"]
  }
}
