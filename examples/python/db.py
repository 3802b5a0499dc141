"""The application's database: PostgreSQL or SQLite, the same that the agent has as its store."""

import contextlib
import os
import sqlite3

URL = os.environ.get("DATABASE_URL", "sqlite:leasehold.db")
SQLITE = URL.startswith("sqlite:")
TASK = "task" if SQLITE else "leasehold.task"


def connect():
    if SQLITE:
        # Writing transactions begin with BEGIN IMMEDIATE, and wait five seconds for their turn.
        return sqlite3.connect(URL.removeprefix("sqlite:"), timeout=5, isolation_level="IMMEDIATE")
    import psycopg2

    return psycopg2.connect(URL)


@contextlib.contextmanager
def transaction():
    """Gives a function that runs a statement and returns its cursor. All is committed when the block ends, and
    undone when it raises."""
    with contextlib.closing(connect()) as db, db:
        cursor = db.cursor()

        def run(sql, *values):
            cursor.execute(sql if SQLITE else sql.replace("?", "%s"), values)
            return cursor

        yield run


def enqueue(run, task_type, payload):
    """Adds a task to the transaction that `run` belongs to, and returns its id."""
    return run(f"INSERT INTO {TASK} (type, payload) VALUES (?, ?) RETURNING id", task_type, payload).fetchone()[0]


def create_tables():
    with open(os.path.join(os.path.dirname(__file__), "../schema.sql"), encoding="utf-8") as schema:
        with transaction() as run:
            for statement in schema.read().strip().split(";\n"):
                run(statement)
