#!/bin/sh
# One label.print task: the name comes as an argument, the result goes into a file.
printf '{"label": "To: %s"}' "$1" >"$LEASEHOLD_RESULT_FILE"
