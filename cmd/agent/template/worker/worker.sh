#!/bin/sh
# A worker: runs "hello" tasks, one after another. Each line of standard input is one attempt. It needs jq.
set -u
command -v jq >/dev/null || { echo 'jq is missing' >&2; exit 1; }

# hello gets an envelope and prints the result, JSON, on descriptor 4.
hello() {
  echo "hello from task $(printf '%s\n' "$1" | jq .task.id)" # output is kept with the attempt
  echo '{"greeting": "hello"}' >&4
}

echo '{"ready": true}' >&3
while IFS= read -r envelope; do
  # The last line repeats the envelope's id and fence.
  this=$(printf '%s\n' "$envelope" | jq -c '.task | {id, fence}')
  if { result=$(hello "$envelope" 4>&1 >&5 3>&- </dev/null); } 5>&1 &&
    end=$(printf '%s\n' "$this" | jq -c --argjson result "${result:-null}" '. + {result: $result}'); then
    printf '%s\n' "$end" >&3
  else # with retryable: false it is not tried again
    printf '%s\n' "$this" | jq -c '. + {error: "hello failed"}' >&3
  fi
done
