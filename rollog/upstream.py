"""What stands on the log that a fork was made from: asked there, and shown with what the fork made of it."""

from collections.abc import Mapping

import msgspec

from consumers.feed import OpenReader
from consumers.index import Index
from consumers.lineage import Lineage, Tree
from consumers.naming import TOP
from rollog.history import History, history
from rollog.options import Invocation
from schemas.forks import FORK, Fork, fork_of


def read_forks(open_reader: OpenReader) -> dict[str, Fork]:
    """Return what made the forks on a log, by run. Raises LogError."""
    reader = open_reader(["commands"], start="beginning", bounded=True, on_undecodable=lambda _raw, _error: None)
    forks: dict[str, Fork] = {}
    try:
        for event in reader:
            if event.record.command == FORK:
                forks.setdefault(event.record.target, fork_of(event.record, event.position))
    finally:
        reader.close()
    return forks


def recorded_task(index: Index, name: str) -> tuple[str, str] | None:
    """Return the task, and the run it was recorded for, that a name is about; None where it is this log's own."""
    query = (
        "SELECT DISTINCT task, run FROM batches WHERE number NOTNULL "
        "AND (id = ?1 OR (task >= ?1 AND task < ?2)) AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.task = batches.task)"
    )
    found = list(index.ask(query, name, name + TOP)) if name else []
    return (found[0][0], found[0][1]) if len({row[0] for row in found}) == 1 else None


def source_of(called: Invocation, fork: Fork) -> Invocation:
    """Return the invocation that asks the log forked from."""
    log = msgspec.structs.replace(called.settings.log, namespace=fork.source_namespace)
    settings = msgspec.structs.replace(called.settings, log=log, run=fork.source_run)
    return Invocation(settings=settings, home=called.home)


def follow(called: Invocation, past: History, name: str) -> Tree | None:
    """Return the chain of a task or rollout that was recorded upstream; None where it was not. Raises LogError."""
    head, _, sample = name.partition("/")
    recorded = recorded_task(past.index, head)
    forks = read_forks(past.open_reader) if recorded else {}
    if recorded is None or recorded[1] not in forks:
        return None
    task, fork = recorded[0], forks[recorded[1]]
    number = int(sample) if sample.isdecimal() else None
    here = Lineage(past.index, past.open_reader, past.state.bounds).of_task(task, sample=number)
    with history(source_of(called, fork)) as upstream:
        there = Lineage(upstream.index, upstream.open_reader, upstream.state.bounds).of_task(task, sample=number)
    advantages = {row["rollout_id"]: row["advantage"] for end in here["ends"] for row in end.get("rows", ())}
    for rollout in there["rollouts"]:
        rollout["advantage"] = advantages.get(rollout["rollout_id"])
    mine = {part: here[part] for part in ("ends", "steps", "descendants")}
    return {"upstream": place_of_fork(fork), **there, **mine, "gone": there["gone"] + here["gone"]}


def place_of_fork(fork: Fork) -> Tree:
    """Return what a fork came from."""
    return {
        "run": fork.source_run,
        "namespace": fork.source_namespace,
        "policy": fork.source_policy,
        "version": fork.step,
    }


def origin_of(open_reader: OpenReader, policy: Mapping[str, object]) -> Tree | None:
    """Return what the first version of a fork's policy came from, None for any other version. Raises LogError."""
    if policy.get("parent") is not None:
        return None
    fork = read_forks(open_reader).get(str(policy.get("run_id")))
    return None if fork is None or fork.step != policy.get("version") else place_of_fork(fork)
