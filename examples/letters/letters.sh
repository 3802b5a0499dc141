#!/bin/sh
# A long task that sends letters. Each line on descriptor 3 is a ping with a checkpoint. The next attempt receives the last
# checkpoint, and resumes after that letter.
set -eu
trap 'exit 1' TERM # cancelled, timed out, or the agent is stopping

envelope=$(cat)
total=$(printf %s "$envelope" | jq .data.letters)
start=$(printf %s "$envelope" | jq '.task.checkpoint // 0')

n=$start
while [ "$n" -lt "$total" ]; do
  sleep 0.05 # the time that the printer takes
  n=$((n + 1))
  echo "letter $n, attempt $LEASEHOLD_ATTEMPT" >>"$OUTBOX"
  echo "{\"progress\": {\"done\": $n, \"total\": $total}, \"checkpoint\": $n}" >&3
done
echo "{\"letters\": $total, \"after\": $start}" >"$LEASEHOLD_RESULT_FILE"
