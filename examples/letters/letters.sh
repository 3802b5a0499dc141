#!/bin/sh
# A long task: letters go out one after the other. Descriptor 3 takes a line for each sign of life; the checkpoint in it
# comes back with the next attempt, which begins after the last letter that was noted.
set -eu
trap 'exit 1' TERM # cancelled, out of time, or the agent goes down

envelope=$(cat)
total=$(printf %s "$envelope" | jq .data.letters)
start=$(printf %s "$envelope" | jq '.task.checkpoint // 0')

n=$start
while [ "$n" -lt "$total" ]; do
  sleep 0.05 # so long takes the printer
  n=$((n + 1))
  echo "letter $n, attempt $LEASEHOLD_ATTEMPT" >>"$OUTBOX"
  echo "{\"progress\": {\"done\": $n, \"total\": $total}, \"checkpoint\": $n}" >&3
done
echo "{\"letters\": $total, \"after\": $start}" >"$LEASEHOLD_RESULT_FILE"
