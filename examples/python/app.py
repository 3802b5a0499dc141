"""A small application: it stores names, and has Leasehold run the greetings and the reports."""

import base64
import hmac
import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import db

SECRET = os.environ.get("WEBHOOK_SECRET", "whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA==")


def add_greetings(body):
    """Each name and its task are written in one transaction: all or nothing."""
    with db.transaction() as run:
        tasks = []
        for name in body["names"]:
            run("INSERT INTO greeting (name) VALUES (?)", name)
            tasks.append(db.enqueue(run, "greeting.send", json.dumps({"name": name})))
    return 201, {"tasks": tasks}


def add_report(body):
    with db.transaction() as run:
        run("INSERT INTO report (name) VALUES (?)", body["name"])
        task = db.enqueue(run, "report.build", json.dumps({"name": body["name"]}))
    return 201, {"tasks": [task]}


def greet(envelope):
    """The callback. It may arrive more than once, so it checks before it acts."""
    name, task = envelope["data"]["name"], envelope["task"]["id"]
    with db.transaction() as run:
        if not run("SELECT 1 FROM greeting WHERE name = ?", name).fetchone():
            return 422, {"error": "no such name"}  # rejected: a retry would not help
        run("UPDATE greeting SET greeted_by = ? WHERE name = ? AND greeted_by IS NULL", task, name)
    return 200, {"greeting": f"Hello, {name}!"}


def signed(headers, body):
    """Checks the signature (https://www.standardwebhooks.com)."""
    stamp = headers.get("webhook-timestamp", "0")
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    message = f"{headers.get('webhook-id')}.{stamp}.".encode() + body
    want = "v1," + base64.b64encode(hmac.digest(key, message, "sha256")).decode()
    fresh = stamp.isdigit() and abs(time.time() - int(stamp)) < 300
    return fresh and any(hmac.compare_digest(want, s) for s in headers.get("webhook-signature", "").split())


class Handler(BaseHTTPRequestHandler):
    routes = {"/greetings": add_greetings, "/reports": add_report, "/greet": greet}

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        route = self.routes.get(self.path)
        if route is None:
            return self.answer(404, {"error": "no such place"})
        if route is greet and not signed(self.headers, body):
            return self.answer(401, {"error": "the signature is not ours"})
        try:
            self.answer(*route(json.loads(body)))
        except Exception as error:
            # PostgreSQL reports 23505; sqlite3 names the kind. The transaction is already rolled back.
            taken = getattr(error, "pgcode", None) == "23505" or "UNIQUE" in str(error)
            self.answer(409 if taken else 500, {"error": str(error)})

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    db.create_tables()
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8080))), Handler).serve_forever()
