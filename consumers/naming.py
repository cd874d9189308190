"""From what a person types to one thing of the log, by the index. Raises LogError that says what is nearest.

A task's id may be cut where it is still the only one; a rollout is `TASK/SAMPLE`; a step `12` or `RUN/12`; a policy
version `12`, `NAME@12` or `RUN/NAME@12`. Any event's id stands for the task, rollout or reward that it is about.
"""

import re
from itertools import takewhile
from typing import Any

import msgspec

from consumers.index import Index
from schemas.errors import LogError

STEP = re.compile(r"(?:(?P<run>[^/]+)/)?(?P<step>\d+)")
POLICY = re.compile(r"(?:(?P<run>[^/]+)/)?(?:(?P<policy>[^/@]+)@)?(?P<version>\d+)")
MOST_HINTS = 3
TOP = "\U0010ffff"
"""Sorts after every character that follows a prefix."""


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """What was meant."""

    task: str = ""
    sample: int | None = None
    place: int | None = None
    """Of the event that was named, for a reward, a step or a policy version."""


def find_task(index: Index, text: str) -> Named:
    """Return the task of an id, its beginning, or an event's id."""
    tasks = starting_with(index, "tasks", "task", text)
    if len(tasks) == 1 or text in tasks:
        return Named(task=text if text in tasks else tasks[0])
    if tasks:
        raise LogError(f"task {text!r}: {len(tasks)} and more begin so: {', '.join(tasks)}; give more of it")
    row = index.one("SELECT task, sample FROM events WHERE id = ? AND task != ''", text)
    if row is None:
        raise unknown(index, "task", text, table="tasks", column="task")
    return Named(task=row[0], sample=row[1])


def find_rollout(index: Index, text: str) -> Named:
    """Return the rollout `TASK/SAMPLE`, or the one that an event is about."""
    head, slash, tail = text.rpartition("/")
    if not slash:
        row = index.one("SELECT task, sample FROM events WHERE id = ? AND sample IS NOT NULL", text)
        if row is None:
            raise LogError(f"rollout {text!r}: wanted TASK/SAMPLE, or the id of an event that is about a rollout")
        return Named(task=row[0], sample=row[1])
    task = find_task(index, head).task
    query = "SELECT DISTINCT sample FROM events WHERE task = ? AND task != '' AND sample NOTNULL"
    known = [row[0] for row in index.ask(query, task)]
    if not tail.isdecimal() or int(tail) not in known:
        shown = ", ".join(map(str, sorted(known)[:16])) or "none"
        raise LogError(f"rollout {text!r}: task {task} has no sample {tail!r} on the log; there are: {shown}")
    return Named(task=task, sample=int(tail))


def find_reward(index: Index, text: str) -> Named:
    """Return the reward of an event id or its beginning; a rollout's id stands for its rewards."""
    if "/" in text:
        return find_rollout(index, text)
    query = (
        "SELECT id, min(place), task, sample FROM events WHERE id >= ?1 AND id < ?2 AND kind = 'reward_scored' "
        "GROUP BY id ORDER BY id LIMIT ?3"
    )
    found = list(index.ask(query, text, text + TOP, MOST_HINTS)) if text else []
    exact = [row for row in found if row[0] == text]
    if len(found) > 1 and not exact:
        raise LogError(f"reward {text!r}: several begin so: {', '.join(row[0] for row in found)}; give more of it")
    if not found:
        raise unknown(index, "reward", text, table="events", column="id")
    _, place, task, sample = (exact or found)[0]
    return Named(task=task, sample=sample, place=place)


def find_step(index: Index, text: str, run: str) -> Named:
    """Return the step `12` or `RUN/12`; `run` is meant where none is named and it has steps."""
    match = STEP.fullmatch(text)
    if match is None:
        row = index.one("SELECT place FROM steps WHERE id = ?", text)
        if row is None:
            raise LogError(f"step {text!r}: wanted a number, RUN/NUMBER or a step's event id")
        return Named(place=row[0])
    number = int(match["step"])
    chosen = choose_run(index, "steps", match["run"], run)
    row = index.one("SELECT min(place) FROM steps WHERE run = ? AND step = ?", chosen, number)
    if row is None or row[0] is None:
        low, high = index.one("SELECT min(step), max(step) FROM steps WHERE run = ?", chosen) or (None, None)
        raise LogError(f"step {text!r}: run {chosen!r} has no step {number} on the log; it has {low} to {high}")
    return Named(place=row[0])


def find_policy(index: Index, text: str, run: str) -> Named:
    """Return the policy version `12`, `NAME@12` or `RUN/NAME@12`; the run's own name where none is given."""
    match = POLICY.fullmatch(text)
    if match is None:
        row = index.one("SELECT place FROM policies WHERE id = ?", text)
        if row is None:
            raise LogError(f"policy {text!r}: wanted VERSION, NAME@VERSION, RUN/NAME@VERSION or its event's id")
        return Named(place=row[0])
    chosen = choose_run(index, "policies", match["run"], run)
    name, version = match["policy"], int(match["version"])
    query = "SELECT place FROM policies WHERE run = ?1 AND version = ?2 AND (?3 IS NULL OR policy = ?3) ORDER BY place"
    row = index.one(query, chosen, version, name)
    if row is None:
        query = (
            "SELECT policy || '@' || version FROM policies WHERE run = ?1 ORDER BY abs(version - ?2), policy LIMIT ?3"
        )
        near = ", ".join(found[0] for found in index.ask(query, chosen, version, MOST_HINTS))
        raise LogError(f"policy {text!r}: run {chosen!r} published no such version; nearest: {near}")
    return Named(place=row[0])


def choose_run(index: Index, table: str, named: str | None, default: str) -> str:
    """Return the run that is meant: the named one, else the settings', else the only one that there is."""
    runs = [row[0] for row in index.ask(f"SELECT DISTINCT run FROM {table} ORDER BY run")]  # noqa: S608 own names
    wanted = named or default
    if wanted in runs:
        return wanted
    if named is None and len(runs) == 1:
        return str(runs[0])
    raise LogError(f"run {wanted!r} has no {table} on the log; there are of: {', '.join(runs[:16]) or 'none'}")


def starting_with(index: Index, table: str, column: str, text: str) -> list[str]:
    """Return a few values that begin with the text."""
    if not text:
        return []
    query = (
        f"SELECT DISTINCT {column} FROM {table} WHERE {column} >= ? AND {column} < ? "  # noqa: S608 own names
        f"ORDER BY {column} LIMIT ?"
    )
    return [row[0] for row in index.ask(query, text, text + TOP, MOST_HINTS)]


def unknown(index: Index, what: str, text: str, *, table: str, column: str) -> LogError:
    """Return what to tell of an id that is not there: what else it is the id of, or what is nearest."""
    row: Any = index.one("SELECT kind, place FROM events WHERE id = ?", text)
    if row is not None:
        return LogError(f"{what} {text!r}: that is the id of a {row[0]}, at {index.position(row[1])}")
    condition = " AND kind = 'reward_scored'" if what == "reward" else ""
    near = []
    for compare, order in ((">=", "ASC"), ("<", "DESC")):
        query = (
            f"SELECT {column} FROM {table} WHERE {column} {compare} ?{condition} "  # noqa: S608 own names
            f"ORDER BY {column} {order} LIMIT 1"
        )
        near += [row[0] for row in index.ask(query, text)]
    if not near:
        return LogError(f"{what} {text!r} is not on the log; there is none of its kind")
    closest = max(near, key=lambda found: len_in_common(found, text))
    return LogError(f"{what} {text!r} is not on the log; nearest: {closest}")


def len_in_common(one: str, other: str) -> int:
    """Return the length of what both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
