#!/bin/sh
# A label.print task: the name is an argument, the result goes into a file.
printf '{"label": "To: %s"}' "$1" >"$LEASEHOLD_RESULT_FILE"
