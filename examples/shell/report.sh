#!/bin/sh
# One report.build task: the envelope comes on standard input, the result goes into $LEASEHOLD_RESULT_FILE.
set -eu
. ./lib.sh
greetings=$(sql '.data.name | q |
  "UPDATE report SET greetings = (SELECT count(*) FROM greeting WHERE greeted_by IS NOT NULL) WHERE name = \(.);",
  "SELECT greetings FROM report WHERE name = \(.);"' | transaction)
if [ -z "$greetings" ]; then
  echo 'no report of that name' >&2
  exit 65 # rejected: trying again would not help
fi
printf '{"greetings": %s}' "$greetings" >"$LEASEHOLD_RESULT_FILE"
