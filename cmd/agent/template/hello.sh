#!/bin/sh
# One attempt of a "hello" task. Exit 0: succeeded; 64 or 65: rejected for good; any other: tried again.
set -eu

# The task arrives as JSON on standard input; what identifies it is in the environment, too.
envelope=$(cat)
echo "hello from task $LEASEHOLD_TASK_ID, attempt $LEASEHOLD_ATTEMPT"
echo "$envelope"

# What is written here is kept as the task's result.
echo '{"greeting": "hello"}' >"$LEASEHOLD_RESULT_FILE"
