"""Points are added exactly once, however often the task runs. On SQLite: python3 sqlite.py credit|import|mirror"""

import json
import os
import sqlite3
import sys


def connect(variable):
    """A connection that waits for its turn to write, and begins transactions only explicitly."""
    return sqlite3.connect(os.environ[variable].removeprefix("sqlite:"), timeout=5, isolation_level=None)


def add(db, name, points):
    if db.execute("UPDATE account SET points = points + ? WHERE name = ?", (points, name)).rowcount == 0:
        sys.exit(f"there is no account {name}")


def credit(task, data):
    """One effect: the effect and the task's completion are one commit."""
    db = connect("DATABASE_URL")
    with db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO hold (id, fence) VALUES (?, ?)", (task["id"], task["fence"]))
        add(db, data["name"], data["points"])
        db.execute("INSERT INTO complete (id, fence, result) VALUES (?, ?, ?)",
                   (task["id"], task["fence"], '{"credited": true}'))


def import_all(task, data):
    """Many effects: each commits with the position after it, and only while the lease is held."""
    db = connect("DATABASE_URL")
    done = -1
    while done < len(data["credits"]):
        with db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO hold (id, fence) VALUES (?, ?)", (task["id"], task["fence"]))
            db.execute("INSERT INTO reached (task) VALUES (?) ON CONFLICT DO NOTHING", (task["id"],))
            (done,) = db.execute("SELECT done FROM reached WHERE task = ?", (task["id"],)).fetchone()
            for name, points in data["credits"][done:done + 1]:  # or a hundred per commit
                add(db, name, points)
                done += 1
            db.execute("UPDATE reached SET done = ? WHERE task = ?", (done, task["id"]))


def mirror(task, data):
    """Effects in another database: it cannot see leases, but it refuses a fence below the highest one seen."""
    db = connect("OTHER_DATABASE_URL")
    done = -1
    while done < len(data["credits"]):
        with db:
            db.execute("BEGIN IMMEDIATE")
            row = db.execute(
                "INSERT INTO guard (task, last_fence) VALUES (?, ?) ON CONFLICT (task) DO UPDATE"
                " SET last_fence = excluded.last_fence WHERE guard.last_fence <= excluded.last_fence"
                " RETURNING done", (task["id"], task["fence"])).fetchone()
            if row is None:
                sys.exit("a later attempt has been here: this one stops")
            done = row[0]
            for name, points in data["credits"][done:done + 1]:
                add(db, name, points)
                done += 1
            db.execute("UPDATE guard SET done = ? WHERE task = ?", (done, task["id"]))


envelope = json.load(sys.stdin)
work = {"credit": credit, "import": import_all, "mirror": mirror}[sys.argv[1]]
work(envelope["task"], envelope["data"])
