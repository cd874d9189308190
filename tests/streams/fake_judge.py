"""A small OpenAI-compatible server that judges by rules, and keeps what it was asked."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Say = Callable[[dict[str, Any]], str]
BLOCK = re.compile(r"<<<([0-9a-f]{16})\n(.*?)\n\1>>>", re.DOTALL)


def data_of(body: dict[str, Any]) -> list[str]:
    """Return the texts that the question marks as data."""
    return [found[1] for found in BLOCK.findall(body["messages"][-1]["content"])]


def instructions_of(body: dict[str, Any]) -> str:
    """Return all that is no data: what a model takes its instructions from."""
    return "\n".join(BLOCK.sub("", message["content"]) for message in body["messages"])


def by_first_word(body: dict[str, Any]) -> str:
    """Give the points that the answer's first word stands for, and all to whose words became instructions."""
    if "all points" in instructions_of(body):
        return json.dumps({"points": [4, 4]})
    first = data_of(body)[-1].partition(":")[0]
    return json.dumps({"points": {"GOOD": [4, 4], "HALF": [4, 0]}.get(first, [0, 0])})


class FakeJudge:
    """What it was asked, and what it says."""

    def __init__(self) -> None:
        self.say: Say = by_first_word
        self.status = 200
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.url = ""

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": self.say(body)}
        return {"model": "judge-7b", "system_fingerprint": "fp_1", "choices": [{"index": 0, "message": message}]}


@contextmanager
def serving() -> Iterator[FakeJudge]:
    """Serve a judge on this machine."""
    judge = FakeJudge()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            judge.bodies.append(body)
            judge.keys.append(self.headers["Authorization"])
            content = json.dumps(judge.answer(body)).encode()
            self.send_response(judge.status if self.path == "/v1/chat/completions" else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    judge.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield judge
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
