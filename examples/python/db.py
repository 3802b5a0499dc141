"""The application's database, PostgreSQL or SQLite, which is also the agent's store."""

import contextlib
import os
import sqlite3

URL = os.environ.get("DATABASE_URL", "sqlite:leasehold.db")
SQLITE = URL.startswith("sqlite:")
TASK = "task" if SQLITE else "leasehold.task"


def connect():
    if SQLITE:
        # Write transactions begin with BEGIN IMMEDIATE, and wait up to five seconds for the lock.
        return sqlite3.connect(URL.removeprefix("sqlite:"), timeout=5, isolation_level="IMMEDIATE")
    import psycopg2

    return psycopg2.connect(URL)


@contextlib.contextmanager
def transaction():
    """Yields a function that runs a statement and returns its cursor. Commits when the block ends, and rolls back
    when it raises."""
    with contextlib.closing(connect()) as db, db:
        cursor = db.cursor()

        def run(sql, *values):
            cursor.execute(sql if SQLITE else sql.replace("?", "%s"), values)
            return cursor

        yield run


def enqueue(run, task_type, payload):
    """Adds a task to the transaction of `run`, and returns its id."""
    return run(f"INSERT INTO {TASK} (type, payload) VALUES (?, ?) RETURNING id", task_type, payload).fetchone()[0]


def create_tables():
    with open(os.path.join(os.path.dirname(__file__), "../schema.sql"), encoding="utf-8") as schema:
        with transaction() as run:
            for statement in schema.read().strip().split(";\n"):
                run(statement)
