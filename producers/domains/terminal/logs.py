"""Questions about a server's logs."""

import random
from typing import Any

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.terminal.requests_served import LIMITS, QUESTIONS, Request, draw_requests
from producers.domains.terminal.verdicts import answer_is, asked, bash, json_text, machine
from schemas.tasks import VerifierSpec

NAMES = ("access", "www", "shop", "portal", "edge")
LINES_PER_FILE = 40


@domain(family="terminal", levels=4, max_tokens=512)
def terminal_logs(rng: random.Random, level: int) -> Item:
    """Count and aggregate what stands in log files."""
    days = rng.sample(range(1, 29), level + 1)
    clients = [f"10.{rng.randint(0, 9)}.{rng.randint(0, 99)}.{rng.randint(1, 254)}" for _ in range(5 + 2 * level)]
    served = {day: draw_requests(rng, LINES_PER_FILE, day, clients) for day in days}
    limit, admits = LIMITS[0] if level == 0 else rng.choice(LIMITS[1:])
    found: dict[str, tuple[str, Any]] = {}
    requests = [request for day in days for request in served[day] if admits(request)]
    for key, text, find in rng.sample(QUESTIONS, len(QUESTIONS)):
        value = find(requests) if requests else None
        if value not in (None, 0) and len(found) < level + 2:
            found[key] = (text, value)
    answer = {key: value for key, (_, value) in found.items()}
    name = rng.choice(NAMES)
    files = {f"logs/{name}-2026-11-{day:02d}.log": text_of(served[day]) for day in days}
    execution = machine(files | {"logs/README": "One file a day. Last field: duration.\n"})
    asks = "\n".join(f"- {key}: {text}" for key, (text, _) in found.items())
    question = (
        f"The folder logs/ holds what the server {name} served. Find out, over all its log files ({limit}):\n{asks}\n"
        "Answer with one JSON object that has these keys."
    )
    half = dict(list(answer.items())[: max(1, len(answer) // 2)])
    return Item(
        prompt=asked(rng, question, execution),
        gold=(bash("ls -l logs; head -n 3 logs/*.log"), json_text(answer)),
        verifier=VerifierSpec(kind="parts", parts=(answer_is(answer),)),
        execution=execution,
        max_turns=6 + level,
        partials=((bash("ls logs"), json_text(half)),),
        wrongs=((bash("ls logs"), json_text(dict.fromkeys(answer, 0))), (bash("ls logs"), "Done.")),
        difficulty=len(days) * len(answer),
    )


def text_of(requests: list[Request]) -> str:
    """Return a log file."""
    return "".join(f"{request.line}\n" for request in requests)
