"""A worker: runs "hello" tasks, one after another. Each line of standard input is one attempt."""
import json
import os
import sys
import traceback

replies = os.fdopen(3, "w", buffering=1)  # each line is written at once


def hello(data, task):
    print("hello from task", task["id"])  # output is kept with the attempt
    return {"greeting": "hello"}


print(json.dumps({"ready": True}), file=replies)
for line in sys.stdin.buffer:
    envelope = json.loads(line)
    task = envelope["task"]
    end = {"id": task["id"], "fence": task["fence"]}  # the last line repeats them
    try:
        end["result"] = hello(envelope["data"], task)
    except Exception as e:
        traceback.print_exc()
        end["error"] = f"{type(e).__name__}: {e}"  # with "retryable": False it is not tried again
    sys.stdout.flush()
    print(json.dumps(end), file=replies)
