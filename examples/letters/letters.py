"""A long task that sends letters. Each line on descriptor 3 is a ping with a checkpoint. The next attempt receives the
last checkpoint, and resumes after that letter."""

import json
import os
import signal
import sys
import time

stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))  # cancelled, timed out, or the agent is stopping

envelope = json.load(sys.stdin)
total, task = envelope["data"]["letters"], envelope["task"]
start = task["checkpoint"] or 0

with open(int(os.environ["LEASEHOLD_PING_FD"]), "w") as ping, open(os.environ["OUTBOX"], "a") as outbox:
    for n in range(start + 1, total + 1):
        if stopping:
            sys.exit(f"stopped after {n - 1} letters")
        time.sleep(0.05)  # the time that the printer takes
        print(f"letter {n}, attempt {task['attempt']}", file=outbox, flush=True)
        print(json.dumps({"progress": {"done": n, "total": total}, "checkpoint": n}), file=ping, flush=True)

with open(os.environ["LEASEHOLD_RESULT_FILE"], "w") as result:
    json.dump({"letters": total, "after": start}, result)
