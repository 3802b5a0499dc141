"""A long task: letters go out one after the other. Descriptor 3 takes a line for each sign of life; the checkpoint in
it comes back with the next attempt, which begins after the last letter that was noted."""

import json
import os
import signal
import sys
import time

stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))  # cancelled, out of time, or the agent goes down

envelope = json.load(sys.stdin)
total, task = envelope["data"]["letters"], envelope["task"]
start = task["checkpoint"] or 0

with open(int(os.environ["LEASEHOLD_PING_FD"]), "w") as ping, open(os.environ["OUTBOX"], "a") as outbox:
    for n in range(start + 1, total + 1):
        if stopping:
            sys.exit(f"stopped after {n - 1} letters")
        time.sleep(0.05)  # so long takes the printer
        print(f"letter {n}, attempt {task['attempt']}", file=outbox, flush=True)
        print(json.dumps({"progress": {"done": n, "total": total}, "checkpoint": n}), file=ping, flush=True)

with open(os.environ["LEASEHOLD_RESULT_FILE"], "w") as result:
    json.dump({"letters": total, "after": start}, result)
