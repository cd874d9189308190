"""The admission test of a domain: what has to hold before any policy trains on it.

Of every level: the gold rollout is worth 1; an empty one, garbage, and the prompt said back are worth next to nothing;
what the domain calls wrong too, and what it calls partial is in between; the task says the same after JSON and after
MessagePack. The same seed is the same item in another process, unless the domain says otherwise; of many items nearly
all are different, and what has to be got right grows with the level. Of puzzles and of files, which are others' to
make, how many are different is only counted, and levels are theirs.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from producers.domains.interface import Domain, Item, SplitError, question_digest
from rollog.playing import judge, play, say_all
from schemas.codec import decode_record, encode_value
from schemas.content import record_digest
from schemas.errors import ConfigError
from schemas.events import Position
from schemas.tasks import SamplingParams, TaskIssued
from streams.running import Runner
from streams.verifiers.parts.checking import check_spec

NEXT_TO_NOTHING = 0.05
NUM_ITEMS, NUM_DIFFERENT, NUM_OF_OTHERS = 1000, 990, 20
GENERATED = ("demo", "downstream")
"""Tiers of domains that make up as many items as are asked for."""
NUM_IN_OTHER_PROCESS, NUM_OF_OTHERS_THERE = 20, 4
NUM_FOR_DIFFICULTY = 60
GARBAGE = ("xq7 zzv -- 0x", "```\n)(\n```", '{"a": [}')
HERE = Position("tasks", 0, 0)
OTHER_HASH_SEED = "4242"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that does not hold."""

    level: int
    what: str
    got: str


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of a domain."""

    name: str
    num_played: int
    num_different: int
    """Of `num_drawn` items."""
    num_drawn: int
    faults: tuple[Fault, ...]

    @property
    def is_admitted(self) -> bool:
        """Return whether nothing is wrong with it."""
        return not self.faults


def admit(
    domain: Domain,
    runner: Runner | None,
    *,
    elsewhere: list[str] | None = None,
    num_items: int = 2,
    num_drawn: int = 0,
) -> Admission:
    """Test a domain, `num_items` items of each level played.

    `num_drawn` are drawn to see how many are different, by default as many as the tier asks for;
    `elsewhere` is what `drawn_elsewhere` says of it; None asks.
    """
    try:
        return tested(domain, runner, elsewhere=elsewhere, num_items=num_items, num_drawn=num_drawn)
    except SplitError as error:
        fault = Fault(level=-1, what="split", got=str(error))
        return Admission(name=domain.name, num_played=0, num_different=0, num_drawn=0, faults=(fault,))


def tested(
    domain: Domain, runner: Runner | None, *, elsewhere: list[str] | None, num_items: int, num_drawn: int
) -> Admission:
    """Return what is found of a domain. Raises SplitError where it cannot be drawn from at all."""
    num_drawn = num_drawn or (NUM_ITEMS if domain.tier in GENERATED else NUM_OF_OTHERS)
    faults: list[Fault] = []
    num_played = 0
    for level in range(domain.levels):
        for seed in range(num_items):
            item = domain.item(random.Random(f"{domain.name}/{level}/{seed}"), level, seed % 2 == 1)
            faults += check_item(item, level)
            for what, texts, low, high in trials(item):
                num_played += 1
                faults += try_out(domain, item, level, what, texts, low, high, runner)
    num_different = len({question_digest(item) for item in draws(domain, num_drawn)})
    if domain.tier in GENERATED and num_different < num_drawn * NUM_DIFFERENT // NUM_ITEMS:
        faults.append(Fault(level=-1, what="variety", got=f"{num_different} different of {num_drawn}"))
    if is_drawn_elsewhere(domain):
        elsewhere = drawn_elsewhere([domain.name])[domain.name] if elsewhere is None else elsewhere
        here = digests(domain.name)
        if elsewhere != here:
            num = sum(a != b for a, b in zip(here, elsewhere, strict=False))
            faults.append(Fault(level=-1, what="same seed, same item", got=f"{num} of {len(here)} differ elsewhere"))
    if domain.tier in GENERATED:
        faults += check_levels(domain)
    return Admission(
        name=domain.name,
        num_played=num_played,
        num_different=num_different,
        num_drawn=num_drawn,
        faults=tuple(faults),
    )


def check_item(item: Item, level: int) -> list[Fault]:
    """Return what is wrong with an item before it is played: a spec that nothing can be judged by."""
    try:
        check_spec(item.verifier)
    except ConfigError as error:
        return [Fault(level=level, what="verifier", got=str(error))]
    return []


def draws(domain: Domain, num: int) -> Iterator[Item]:
    """Yield items of all levels, as many of each."""
    rng = random.Random(domain.name)
    return (domain.item(rng, index % domain.levels, False) for index in range(num))


def trials(item: Item) -> Iterator[tuple[str, tuple[str, ...], float, float]]:
    """Yield what a rollout is called, what it says, and the least and the most that it may be worth."""
    yield "gold", item.gold, 1.0, 1.0
    yield "empty", ("",) * item.max_turns, 0.0, NEXT_TO_NOTHING
    for garbage in GARBAGE:
        yield f"garbage {garbage!r}", (garbage,) * item.max_turns, 0.0, NEXT_TO_NOTHING
    yield "the prompt said back", (item.prompt,) * item.max_turns, 0.0, NEXT_TO_NOTHING
    for number, texts in enumerate(item.wrongs):
        yield f"wrong {number}", texts, 0.0, NEXT_TO_NOTHING
    for number, texts in enumerate(item.partials):
        yield f"partial {number}", texts, NEXT_TO_NOTHING, 1.0 - 1e-9


def try_out(  # noqa: PLR0917  a row of `trials`
    domain: Domain, item: Item, level: int, what: str, texts: tuple[str, ...], low: float, high: float,
    runner: Runner | None,
) -> list[Fault]:  # fmt: skip
    """Return what is wrong with one rollout's worth."""
    task = task_of(domain, item, level)
    faults = []
    if what == "gold":
        if again(task) != task:
            faults.append(Fault(level=level, what="round trip", got="another task after JSON and MessagePack"))
        task = again(task)
    finding = judge(task, play(task, say_all(texts), runner))
    if finding.score is None:
        faults.append(Fault(level=level, what=what, got=f"{finding.invalid_reason}: {finding.detail}"))
    elif not low - 1e-9 <= finding.score.value <= high:
        got = f"{finding.score.value:.3f} {finding.score.parts} {finding.score.detail}"
        faults.append(Fault(level=level, what=what, got=f"{got}; wanted {low:g} to {high:g}; said {texts[-1:]!r:.200}"))
    return faults


def task_of(domain: Domain, item: Item, level: int) -> TaskIssued:
    """Return a task that holds the item."""
    return TaskIssued(
        task_id="admission",
        run_id="admission",
        index=0,
        domain=domain.name,
        level=level,
        prompt=item.prompt,
        verifier=item.verifier,
        execution=item.execution,
        max_turns=item.max_turns,
        num_samples=1,
        sampling=SamplingParams(max_tokens=1 << 14),
        family=domain.family,
        gold=item.gold,
    )


def again(task: TaskIssued) -> TaskIssued:
    """Return the task as it comes back from JSON, and then from the wire."""
    from_json = msgspec.json.decode(json.dumps(json.loads(msgspec.json.encode(task))), type=TaskIssued)
    record: TaskIssued = decode_record("rollog.task_issued.v1", encode_value(from_json), where=HERE)
    return record


def is_drawn_elsewhere(domain: Domain) -> bool:
    """Return whether another process is asked for its items: not of files, which only these settings name."""
    return domain.is_reproducible and domain.tier != "file"


def drawn_elsewhere(names: list[str]) -> dict[str, list[str]]:
    """Return `digests` by domain, as another process draws them, in which hashes of texts are others.

    Raises ConfigError where that process fails.
    """
    program = (
        "import json, sys; from rollog.admission_test import digests\n"
        "found = {name: digests(name) for name in json.load(sys.stdin)}\n"
        "json.dump(found, open(sys.argv[1], 'w'))"
    )
    with tempfile.TemporaryDirectory(prefix="rollog-") as folder:
        # By a file, since libraries of puzzles print what they like.
        place = Path(folder) / "digests.json"
        there = subprocess.run(
            [sys.executable, "-c", program, str(place)],
            input=json.dumps(names),
            check=False,
            capture_output=True,
            text=True,
            env=environment(),
        )
        if there.returncode:
            raise ConfigError(f"domains {', '.join(names)} in another process: {there.stderr.strip()[-500:]}")
        found: dict[str, list[str]] = json.loads(place.read_text())
    return found


def environment() -> dict[str, str]:
    """Return an environment in which hashes of texts differ from those here."""
    path = os.pathsep.join(part for part in (*sys.path, os.environ.get("PYTHONPATH", "")) if part)
    return os.environ | {"PYTHONHASHSEED": OTHER_HASH_SEED, "PYTHONPATH": path}


def digests(name: str) -> list[str]:
    """Return the digests of some items of a domain, whole; of none where it cannot be drawn from."""
    from producers.domains.catalogue import get_domain

    domain = get_domain(name)
    rng = random.Random(name)
    num = NUM_IN_OTHER_PROCESS if domain.tier in GENERATED else NUM_OF_OTHERS_THERE
    try:
        return [record_digest(domain.item(rng, i % domain.levels, i % 3 == 0)) for i in range(num)]
    except SplitError:
        return []


def check_levels(domain: Domain) -> list[Fault]:
    """Return whether some level asks for no more than the one below."""
    rng = random.Random(domain.name)
    means = []
    for level in range(domain.levels):
        drawn: list[Any] = [domain.item(rng, level, False).difficulty for _ in range(NUM_FOR_DIFFICULTY)]
        means.append(sum(drawn) / len(drawn))
    falls = [level for level in range(1, len(means)) if means[level] <= means[level - 1]]
    return [Fault(level=level, what="harder than the level below", got=f"mean difficulty {means}") for level in falls]
