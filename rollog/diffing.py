"""Two runs side by side: what they were set to, trained on and became, and the first step at which they part.

A fork's line begins with its source's, up to the step that it was forked at. Of a step little is kept, so a run may be
as long as it likes; batches of two logs are the same where they are of the same tasks.
"""

import hashlib
import json
from functools import partial
from typing import Any

import msgspec

from consumers.reader import Reader
from consumers.recorded import read_fork
from rollog.options import Invocation
from schemas.config import LogSettings, Settings
from schemas.errors import ConfigError
from schemas.evals import EvalScored
from schemas.forks import Fork
from schemas.steps import StepTaken

Tree = dict[str, Any]
NAMES = ("run", "log.namespace", "log.bootstrap", "policy.name")
"""Settings that say where a run is and not what it does."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a step."""

    loss: float
    reward_mean: float
    grad_norm: float
    num_batches: int
    batches: str
    """Digest of the tasks of its batches, in order."""
    weights: str


class Trained(msgspec.Struct, kw_only=True):
    """What a run trained on in one domain."""

    num_rows: int = 0
    num_tokens: int = 0
    sum_rewards: float = 0.0

    @property
    def reward_mean(self) -> float:
        """Return the mean reward over rows."""
        return self.sum_rewards / self.num_rows if self.num_rows else 0.0


class Line(msgspec.Struct, kw_only=True):
    """One run from its base to its last step."""

    run: str
    namespace: str
    fork: Fork | None = None
    steps: dict[int, Taken] = {}
    trained: dict[str, Trained] = {}
    """By domain; of a fork only what it trained on itself."""
    held_out: dict[int, dict[str, float]] = {}
    """Solve rate by version and domain."""
    config: str = ""
    """The learner's settings at its last step, as JSON."""


def read_line(log: LogSettings, run: str, called: Invocation, *, last: int | None = None) -> Line:
    """Return a run's line up to a step, its source's before it. Raises LogError."""
    open_reader = partial(Reader, log, blob_dir=called.blob_dir)
    fork = read_fork(open_reader, run)
    line = Line(run=run, namespace=log.namespace, fork=fork)
    if fork is not None:
        upstream = msgspec.structs.replace(log, namespace=fork.source_namespace)
        before = read_line(upstream, fork.source_run, called, last=fork.step)
        line.steps, line.held_out = before.steps, before.held_out
    tasks = tasks_of_batches(log, called)
    bounded = partial(open_reader, start="beginning", bounded=True, on_undecodable=lambda _raw, _error: None)
    reader = bounded(["steps", "evals"])
    try:
        for event in reader:
            record = event.record
            if record.run_id == run:
                add_to(line, record, tasks, last)
    finally:
        reader.close()
    return line


def tasks_of_batches(log: LogSettings, called: Invocation) -> dict[str, str]:
    """Return the task of each batch that is on the log still, by its id."""
    reader = Reader(
        log,
        ["batches"],
        blob_dir=called.blob_dir,
        start="beginning",
        bounded=True,
        headers_only=True,
        on_undecodable=lambda _raw, _error: None,
    )
    try:
        return {event.id: event.key for event in reader}
    finally:
        reader.close()


def add_to(line: Line, record: StepTaken | EvalScored, tasks: dict[str, str], last: int | None) -> None:
    """Take a step or a result, unless it is later than what is asked for."""
    if isinstance(record, EvalScored):
        if last is None or record.version <= last:
            line.held_out.setdefault(record.version, {})[record.domain] = record.solve_rate
        return
    if (last is not None and record.step > last) or (record.step in line.steps):
        return
    named = "\n".join(tasks.get(ref.event_id, ref.event_id) for ref in record.batches)
    line.steps[record.step] = Taken(
        loss=record.loss,
        reward_mean=record.stats.reward_mean,
        grad_norm=record.grad_norm,
        num_batches=len(record.batches),
        batches=hashlib.sha256(named.encode()).hexdigest()[:16],
        weights=record.weights_digest_out,
    )
    line.config = record.config
    for domain, stats in record.by_domain.items():
        trained = line.trained.setdefault(domain, Trained())
        trained.num_rows += stats.num_rows
        trained.num_tokens += stats.num_tokens
        trained.sum_rewards += stats.reward_mean * stats.num_rows


def diff_runs(first: Invocation, second: Invocation) -> Tree:
    """Return what differs between two runs. Raises ConfigError where neither has a step, LogError."""
    pair = [(called, read_line(called.settings.log, called.settings.run, called)) for called in (first, second)]
    lines = [line for _, line in pair]
    for line in lines:
        if not line.steps and not line.held_out:
            raise ConfigError(
                f"run {line.run!r} has neither a step nor a result on {line.namespace!r}: nothing to compare"
            )
    return {
        "a": about(lines[0]),
        "b": about(lines[1]),
        "settings": settings_diff(*(in_force(called.settings, line) for called, line in pair)),
        "first_difference": {
            "batches": first_difference(lines[0], lines[1], "batches"),
            "weights": first_difference(lines[0], lines[1], "weights"),
        },
        "trained": {
            domain: {name: trained_tree(line, domain) for name, line in zip("ab", lines, strict=True)}
            for domain in sorted({domain for line in lines for domain in line.trained})
        },
        "curves": [
            {"step": step, **{name: taken_tree(line, step) for name, line in zip("ab", lines, strict=True)}}
            for step in sorted({step for line in lines for step in line.steps})
        ],
        "held_out": [
            {
                "version": version,
                "domain": domain,
                **{name: line.held_out.get(version, {}).get(domain) for name, line in zip("ab", lines, strict=True)},
            }
            for version, domain in sorted(
                {(v, d) for line in lines for v, rates in line.held_out.items() for d in rates}
            )
        ],
    }


def about(line: Line) -> Tree:
    """Return what a run is."""
    fork = line.fork
    origin = None if fork is None else {"run": fork.source_run, "step": fork.step, "scoring_id": fork.scoring_id}
    steps = sorted(line.steps)
    return {
        "run": line.run,
        "namespace": line.namespace,
        "forked_from": origin,
        "first_own_step": min((step for step in steps if fork is None or step > fork.step), default=None),
        "last_step": steps[-1] if steps else 0,
    }


def in_force(settings: Settings, line: Line) -> Tree:
    """Return a run's settings as a tree, the learner's as its last step had them."""
    tree: Tree = json.loads(msgspec.json.encode(settings))
    del tree["log"]["client"]
    if line.config:
        tree["learner"] = json.loads(line.config)
    return tree


def settings_diff(first: Tree, second: Tree) -> dict[str, list[Any]]:
    """Return the fields that differ, each with both values; null where one has none."""
    flat = [dict(flatten(tree)) for tree in (first, second)]
    names = sorted(flat[0].keys() | flat[1].keys())
    found = {name: [one.get(name) for one in flat] for name in names if name not in NAMES}
    return {name: values for name, values in found.items() if values[0] != values[1]}


def flatten(tree: Tree, prefix: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of a tree under names with dots."""
    leaves: list[tuple[str, Any]] = []
    for name, value in tree.items():
        leaves += flatten(value, f"{prefix}{name}.") if isinstance(value, dict) and value else [(prefix + name, value)]
    return leaves


def first_difference(first: Line, second: Line, what: str) -> int | None:
    """Return the first step that both took and that differs, or that one of them did not take; None where none."""
    for step in sorted(first.steps.keys() | second.steps.keys()):
        one, other = first.steps.get(step), second.steps.get(step)
        if one is None or other is None or getattr(one, what) != getattr(other, what):
            return step
    return None


def trained_tree(line: Line, domain: str) -> Tree:
    """Return what a run trained on in a domain, and its share of all rows."""
    trained = line.trained.get(domain, Trained())
    total = sum(other.num_rows for other in line.trained.values())
    return {
        "num_rows": trained.num_rows,
        "num_tokens": trained.num_tokens,
        "share": trained.num_rows / total if total else 0.0,
        "reward_mean": trained.reward_mean,
    }


def taken_tree(line: Line, step: int) -> Tree | None:
    """Return a step of a run, None where it took none of that number."""
    taken = line.steps.get(step)
    return None if taken is None else msgspec.to_builtins(taken)
