"""Processes chunks of the table event. Each request is one range of ids: its events are processed, and then marked in one
transaction. It needs only the standard library, and on PostgreSQL psycopg2."""

import base64
import contextlib
import hmac
import json
import os
import signal
import sqlite3
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

URL = os.environ.get("APP_DATABASE_URL", "sqlite:events.db")
SQLITE = URL.startswith("sqlite:")
SECRET = os.environ.get("WEBHOOK_SECRET", "whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA==")
WORK = float(os.environ.get("EVENT_SECONDS", "0.0003"))  # what it takes to process one event

writer = threading.Lock() if SQLITE else contextlib.nullcontext()  # SQLite has one writer: requests wait here, in order


def process(data, task):
    """Processes the events of a range that are not processed yet. A range may come a second time, whole or in part."""
    where, bounds = "status = 0 AND id <= ?", [int(data["through"])]
    if data["after"] is not None:  # it is null in the first range of the table
        where, bounds = where + " AND id > ?", bounds + [int(data["after"])]

    with transaction() as run:
        events = run(f"SELECT id FROM event WHERE {where}", *bounds).fetchall()
    time.sleep(WORK * len(events))  # here the application would do something about each

    # What takes long came first: only the writes are in the transaction that others have to wait for.
    with writer, transaction() as run:
        marked = run(f"UPDATE event SET status = 1, times = times + 1 WHERE {where}", *bounds).rowcount
        run("INSERT INTO journal (task, attempt, events) VALUES (?, ?, ?)", task["id"], task["attempt"], marked)
    return {"events": marked}


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


def connect():
    if SQLITE:
        return sqlite3.connect(URL.removeprefix("sqlite:"), timeout=20, isolation_level="IMMEDIATE")
    import psycopg2

    return psycopg2.connect(URL)


def signed(headers, body):
    """Checks the signature (https://www.standardwebhooks.com)."""
    stamp = headers.get("webhook-timestamp", "0")
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    message = f"{headers.get('webhook-id')}.{stamp}.".encode() + body
    want = "v1," + base64.b64encode(hmac.digest(key, message, "sha256")).decode()
    fresh = stamp.isdigit() and abs(time.time() - int(stamp)) < 300
    return fresh and any(hmac.compare_digest(want, s) for s in headers.get("webhook-signature", "").split())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open between requests

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/events":
            return self.answer(404, {"error": "no such place"})
        if not signed(self.headers, body):
            return self.answer(401, {"error": "the signature is not ours"})
        envelope = json.loads(body)
        try:
            self.answer(200, process(envelope["data"], envelope["task"]))
        except Exception as error:  # the transaction is rolled back, and the task is tried again
            self.answer(500, {"error": str(error)})

    def answer(self, status, content):
        body = json.dumps(content).encode()
        with contextlib.suppress(ConnectionError):  # the agent may be gone, and what is marked stays marked
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_):
        pass  # a line for each request would be thousands


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8080))), Handler).serve_forever()
