"""Points are added exactly once, however often the task runs. On PostgreSQL: python3 postgres.py credit|import|mirror"""

import json
import os
import sys

import psycopg2


def add(sql, name, points):
    sql.execute("UPDATE account SET points = points + %s WHERE name = %s", (points, name))
    if sql.rowcount == 0:
        sys.exit(f"there is no account {name}")


def credit(task, data):
    """One effect: the effect and the task's completion are one commit."""
    with psycopg2.connect(os.environ["DATABASE_URL"]) as db, db.cursor() as sql:
        sql.execute("SELECT leasehold.hold(%s, %s)", (task["id"], task["fence"]))
        add(sql, data["name"], data["points"])
        sql.execute("SELECT leasehold.complete(%s, %s, %s)", (task["id"], task["fence"], '{"credited": true}'))


def import_all(task, data):
    """Many effects: each commits with the position after it, and only while the lease is held."""
    db = psycopg2.connect(os.environ["DATABASE_URL"])
    done = -1
    while done < len(data["credits"]):
        with db, db.cursor() as sql:
            sql.execute("SELECT leasehold.hold(%s, %s)", (task["id"], task["fence"]))
            sql.execute("INSERT INTO reached (task) VALUES (%s) ON CONFLICT DO NOTHING", (task["id"],))
            sql.execute("SELECT done FROM reached WHERE task = %s", (task["id"],))
            done = sql.fetchone()[0]
            for name, points in data["credits"][done:done + 1]:  # or a hundred per commit
                add(sql, name, points)
                done += 1
            sql.execute("UPDATE reached SET done = %s WHERE task = %s", (done, task["id"]))


def mirror(task, data):
    """Effects in another database: it cannot see leases, but it refuses a fence below the highest one seen."""
    db = psycopg2.connect(os.environ["OTHER_DATABASE_URL"])
    done = -1
    while done < len(data["credits"]):
        with db, db.cursor() as sql:
            sql.execute(
                "INSERT INTO guard (task, last_fence) VALUES (%s, %s) ON CONFLICT (task) DO UPDATE"
                " SET last_fence = excluded.last_fence WHERE guard.last_fence <= excluded.last_fence"
                " RETURNING done", (task["id"], task["fence"]))
            row = sql.fetchone()
            if row is None:
                sys.exit("a later attempt has been here: this one stops")
            done = row[0]
            for name, points in data["credits"][done:done + 1]:
                add(sql, name, points)
                done += 1
            sql.execute("UPDATE guard SET done = %s WHERE task = %s", (done, task["id"]))


envelope = json.load(sys.stdin)
work = {"credit": credit, "import": import_all, "mirror": mirror}[sys.argv[1]]
work(envelope["task"], envelope["data"])
