"""An endpoint that gets many tasks in one request. Each line of the response ends one task, and is sent when that has ended."""
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def greet(data):
    return {"greeting": f"Hello, {data['name']}!"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # so that the end of the response is certain

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for element in body["data"]["tasks"]:
            line = {"id": element["task"]["id"]}
            try:
                line["result"] = greet(element["data"])
            except KeyError as missing:
                line.update(error=f"{missing} is missing", retryable=False)
            text = json.dumps(line) + "\n"
            self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())  # a chunk for each line
        self.wfile.write(b"0\r\n\r\n")


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Handler).serve_forever()
