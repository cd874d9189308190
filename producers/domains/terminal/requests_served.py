"""Requests that a web server served, as its logs tell them, and questions with one answer."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

PATHS = ("/", "/login", "/cart", "/api/orders", "/api/users", "/api/search", "/static/app.js", "/health", "/reports/q3")
STATUSES = (200, 200, 200, 200, 200, 200, 304, 301, 404, 404, 403, 500, 502, 503)
AGENTS = ("Mozilla/5.0", "curl/8.4", "Googlebot/2.1", "okhttp/4.11")


class Request(msgspec.Struct, frozen=True):
    """One request."""

    day: int
    hour: int
    minute: int
    client: str
    method: str
    path: str
    status: int
    size: int
    ms: int
    agent: str

    @property
    def line(self) -> str:
        """Return it as a line of a log."""
        time = f"{self.day:02d}/Nov/2026:{self.hour:02d}:{self.minute:02d}:00 +0000"
        return (
            f'{self.client} - - [{time}] "{self.method} {self.path} HTTP/1.1" {self.status} {self.size} '
            f'"{self.agent}" {self.ms}ms'
        )


def draw_requests(rng: random.Random, num: int, day: int, clients: Sequence[str]) -> list[Request]:
    """Return the requests of a day in their order."""
    times = sorted((rng.randrange(24), rng.randrange(60)) for _ in range(num))
    return [
        Request(
            day,
            hour,
            minute,
            rng.choice(clients),
            rng.choice(("GET", "GET", "GET", "POST", "PUT")),
            rng.choice(PATHS),
            rng.choice(STATUSES),
            rng.randint(120, 90_000),
            rng.randint(1, 4000),
            rng.choice(AGENTS),
        )
        for hour, minute in times
    ]


def most(values: list[Any]) -> Any:
    """Return what is most frequent, None where that is not clear."""
    ranked = Counter(values).most_common(2)
    return None if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]) else ranked[0][0]


Find = Callable[[list[Request]], Any]
QUESTIONS: tuple[tuple[str, str, Find], ...] = (
    ("server_errors", "number of requests with a status of 500 or more", lambda rs: sum(r.status >= 500 for r in rs)),
    ("busiest_client", "address of the client with the most requests", lambda rs: most([r.client for r in rs])),
    ("api_bytes", "bytes sent for paths below /api/", lambda rs: sum(r.size for r in rs if r.path[:5] == "/api/")),
    ("clients", "number of different clients", lambda rs: len({r.client for r in rs})),
    ("slowest_ms", "largest duration in ms of a request that had status 200", lambda rs: max(
        (r.ms for r in rs if r.status == 200), default=None)),
    ("hour_of_404", "hour (0 to 23) with the most requests of status 404", lambda rs: most(
        [r.hour for r in rs if r.status == 404])),
    ("failing_path", "path with the most requests of status 500 or more", lambda rs: most(
        [r.path for r in rs if r.status >= 500])),
    ("posts_by_curl", "number of POST requests of agent curl/8.4", lambda rs: sum(
        r.method == "POST" and r.agent == "curl/8.4" for r in rs)),
    ("mean_ms_login", "mean duration in ms of requests for /login, rounded down", lambda rs: sum(
        r.ms for r in rs if r.path == "/login") // max(1, sum(r.path == "/login" for r in rs))),
    ("bot_share", "share of requests of agent Googlebot/2.1 in percent, rounded down", lambda rs: 100 * sum(
        r.agent == "Googlebot/2.1" for r in rs) // len(rs)),
    ("clients_with_5xx", "number of different clients that had a status of 500 or more", lambda rs: len(
        {r.client for r in rs if r.status >= 500})),
    ("slow_share", "number of requests that took longer than 3000 ms and had a status below 400", lambda rs: sum(
        r.ms > 3000 and r.status < 400 for r in rs)),
)  # fmt: skip
"""Key, what is asked, and the answer; None where there is no clear one."""
LIMITS: tuple[tuple[str, Callable[[Request], bool]], ...] = (
    ("all of it", lambda _: True),
    ("requests from 08:00 to 17:59 only", lambda r: 8 <= r.hour < 18),
    ("without requests for /health and below /static/", lambda r: r.path != "/health" and r.path[:8] != "/static/"),
    ("GET requests only", lambda r: r.method == "GET"),
    ("without the agent Googlebot/2.1", lambda r: r.agent != "Googlebot/2.1"),
)
