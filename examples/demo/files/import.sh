#!/bin/sh
# A book.import task: forty pages in order. Each ping carries the page as a checkpoint, and the envelope of the next attempt
# contains it.
echo $$ >>import.pids
page=$(sed -n 's/.*"checkpoint": *\([0-9][0-9]*\).*/\1/p')
page=${page:-0}
while [ "$page" -lt 40 ]; do
  sleep 0.1
  page=$((page + 1))
  echo "attempt $LEASEHOLD_ATTEMPT page $page" >>import.log
  echo "{\"progress\": {\"done\": $page, \"total\": 40}, \"checkpoint\": $page}" >&3
done
