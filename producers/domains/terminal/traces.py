"""What went wrong first, over the logs of several services."""

import random
from itertools import pairwise

import msgspec

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.terminal.verdicts import answer_is, asked, bash, json_text, machine
from schemas.tasks import VerifierSpec

SERVICES = ("gateway", "checkout", "pricing", "stock", "ledger", "mailer", "search", "profile", "tax", "fraud")
CAUSES = (
    ("DB_TIMEOUT", "no connection from the pool within 5000 ms"),
    ("DISK_FULL", "cannot write segment: no space left on device"),
    ("BAD_TOKEN", "signature of the token does not verify, key id k-{n}"),
    ("NULL_PRICE", "price of article {n} is null"),
    ("LOCK_LOST", "lock on row {n} was taken over by another worker"),
    ("SCHEMA_DRIFT", "unknown field currency_{n} in message"),
    ("OOM_KILLED", "worker {n} was killed, memory limit 512 MiB"),
    ("CERT_EXPIRED", "certificate of peer expired {n} days ago"),
)
HANDLED = ("retry 1 of 3 succeeded", "served from cache", "fell back to default", "client went away")


class Logs(msgspec.Struct):
    """Lines by service; time goes on with every line."""

    lines: dict[str, list[str]]
    clock_ms: int = 0

    def write(self, rng: random.Random, service: str, kind: str, request: str, text: str) -> int:
        """Append a line and return its number, from 1."""
        self.clock_ms += rng.randint(1, 400)
        seconds, ms = divmod(self.clock_ms, 1000)
        time = f"2026-11-30T09:{seconds // 60:02d}:{seconds % 60:02d}.{ms:03d}Z"
        self.lines[service].append(f"{time} {kind:5} [{request}] {text}")
        return len(self.lines[service])


@domain(family="terminal", levels=4, max_tokens=512)
def terminal_find_error(rng: random.Random, level: int) -> Item:
    """Find where a request failed first, over the logs of several services."""
    depth = 2 + level
    services = rng.sample(SERVICES, depth + 1)
    logs = Logs(lines={service: [] for service in services})
    request = f"r-{rng.randrange(16**6):06x}"
    before = 4 + 3 * level
    for _ in range(before):
        other_request(rng, logs, services)
    code, line = failing_request(rng, logs, services[:depth], request)
    for _ in range(before):
        other_request(rng, logs, services)
    answer = {"service": services[depth - 1], "code": code, "line": line}
    files = {f"logs/{service}.log": "\n".join(lines) + "\n" for service, lines in logs.lines.items()}
    execution = machine(files)
    question = (
        f"A customer reports that request {request} failed. Each service has its log in logs/SERVICE.log. Find where "
        f"the "
        'the failure began: answer with one JSON object {"service": ..., "code": ..., "line": ...}, the service that '
        "failed first, the code of its error, and the number of that line in its log (the first line is 1)."
    )
    return Item(
        prompt=asked(rng, question, execution),
        gold=(bash(f"grep -n {request} logs/*.log"), json_text(answer)),
        verifier=VerifierSpec(kind="parts", parts=(answer_is(answer),)),
        execution=execution,
        max_turns=6 + level,
        partials=((bash("ls logs"), json_text(answer | {"code": "UPSTREAM", "line": line + 1})),),
        wrongs=((bash("ls"), json_text({"service": services[0], "code": "UPSTREAM", "line": 1 if line > 1 else 2})),),
        difficulty=depth,
    )


def failing_request(rng: random.Random, logs: Logs, chain: list[str], request: str) -> tuple[str, int]:
    """Write a request that fails in the last service of a chain; return the code and the line of that."""
    for service, following in zip(chain, [*chain[1:], ""], strict=True):
        logs.write(rng, service, "INFO", request, f"received POST /{service}/v1")
        if rng.random() < 0.5:
            logs.write(rng, service, "WARN", request, f"slow config lookup, {rng.choice(HANDLED)}")
        if following:
            logs.write(rng, service, "INFO", request, f"calling {following}")
    code, text = rng.choice(CAUSES)
    line = logs.write(rng, chain[-1], "ERROR", request, f"{code}: {text.format(n=rng.randint(2, 99))}")
    for service, following in reversed(list(pairwise(chain))):
        status = rng.choice((500, 502, 503))
        logs.write(rng, service, "ERROR", request, f"UPSTREAM: {following} answered {status}")
    return code, line


def other_request(rng: random.Random, logs: Logs, services: list[str]) -> None:
    """Write a request that is not asked for, some of which have errors that were dealt with."""
    request = f"r-{rng.randrange(16**6):06x}"
    for service in rng.sample(services, rng.randint(1, len(services) - 1)):
        logs.write(rng, service, "INFO", request, f"received POST /{service}/v1")
        if rng.random() < 0.3:
            code, text = rng.choice(CAUSES)
            logs.write(rng, service, "ERROR", request, f"{code}: {text.format(n=rng.randint(2, 99))}")
            logs.write(rng, service, "INFO", request, rng.choice(HANDLED))
        logs.write(rng, service, "INFO", request, f"done in {rng.randint(2, 900)} ms")
