"""A report.build task: it reads the envelope from standard input and writes the result to $LEASEHOLD_RESULT_FILE."""

import json
import os
import sys

import db

name = json.load(sys.stdin)["data"]["name"]

with db.transaction() as run:
    greetings = run("SELECT count(*) FROM greeting WHERE greeted_by IS NOT NULL").fetchone()[0]
    found = run("UPDATE report SET greetings = ? WHERE name = ?", greetings, name).rowcount

if not found:
    print("no report of the name", name, file=sys.stderr)
    sys.exit(65)  # rejected: a retry would not help

with open(os.environ["LEASEHOLD_RESULT_FILE"], "w", encoding="utf-8") as result:
    json.dump({"greetings": greetings}, result)
