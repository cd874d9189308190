"""What makes some verifiers slow in the way that real ones are: a package of domains, and a judge that thinks."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.judged_domains import QUESTION
from streams.verifiers.parts.judge import JudgeOptions

MODEL = "bench-judge"
ALL_POINTS = JudgeOptions(question=QUESTION).scale


def install_domains(site: Path) -> None:
    """Write what a wheel of `bench.judged_domains` would leave in a folder of packages."""
    folder = site / "bench_judged_domains-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-judged-domains\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[rollog.domains]\njudged = bench.judged_domains\n")


class Judge:
    """A served model that finds everything good."""

    def __init__(self) -> None:
        self.url = ""
        self.latency_s = 0.0
        """That it takes over the questions of `bench.judged_domains`; over others it takes none."""
        self.num_slow = 0
        self._never = threading.Event()

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return its answer to a request, when it is time."""
        asked = body["messages"][-1]["content"]
        if QUESTION in asked:
            self.num_slow += 1
            self._never.wait(self.latency_s)
        num_criteria = body["messages"][0]["content"].partition("Criteria:\n")[2].count("\n") + 1
        said = json.dumps({"points": [ALL_POINTS] * num_criteria})
        return {"model": MODEL, "choices": [{"index": 0, "message": {"role": "assistant", "content": said}}]}


@contextmanager
def serving_judge() -> Iterator[Judge]:
    """Serve it on this machine within the block."""
    judge = Judge()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = json.dumps(judge.reply(body)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class' name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    judge.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield judge
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
