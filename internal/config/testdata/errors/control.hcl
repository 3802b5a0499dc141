agent {
  nam = "\u001b" # [31m
}
