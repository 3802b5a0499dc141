#!/bin/sh
# A report.build task: it reads the envelope from standard input and writes the result to $LEASEHOLD_RESULT_FILE.
set -eu
. ./lib.sh
greetings=$(sql '.data.name | q |
  "UPDATE report SET greetings = (SELECT count(*) FROM greeting WHERE greeted_by IS NOT NULL) WHERE name = \(.);",
  "SELECT greetings FROM report WHERE name = \(.);"' | transaction)
if [ -z "$greetings" ]; then
  echo 'no report of that name' >&2
  exit 65 # rejected: a retry would not help
fi
printf '{"greetings": %s}' "$greetings" >"$LEASEHOLD_RESULT_FILE"
