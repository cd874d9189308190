"""What was trained on against what was issued: whether the way from one to the other prefers some rollouts.

Every rollout of every training task has one fate: it trained, or the reason why not. By domain, level, length and
latency the share that trained is compared with that over all. `z` is the difference in standard errors of a share,
with the number of tasks as the number of trials, since rollouts of one task share their fate (a binomial test, as in
Agresti, Categorical Data Analysis, 1.3).
"""

import math
from collections import Counter, defaultdict
from typing import Any

import msgspec
from rich.table import Table

from consumers.index import Index

FATES = """
    CREATE TEMP TABLE fates AS
    WITH RECURSIVE issued AS (
        SELECT min(place) AS place, task, domain, level, num_samples, issued_s, scoring FROM tasks
        WHERE run = ? AND split = 'train' GROUP BY task
    ), ends AS MATERIALIZED (
        SELECT i.*, (
            SELECT min(b.place) FROM batches b JOIN trained t ON t.batch = b.id WHERE b.task = i.task AND t.run = b.run
        ) AS trained_place, CASE
            WHEN EXISTS (SELECT 1 FROM batches b WHERE b.task = i.task AND NOT b.rebuilt) THEN coalesce((
                SELECT d.reason FROM decisions d WHERE d.task = i.task AND d.stage = 'learner' LIMIT 1
            ), 'waiting')
            ELSE coalesce((
                SELECT d.reason FROM decisions d WHERE d.task = i.task AND d.stage = 'assembler' LIMIT 1
            ), (SELECT 'dead letter' FROM letters l WHERE l.origin = i.place), 'open')
        END AS why FROM issued i
    ), each AS (
        SELECT *, 0 AS sample FROM ends
        UNION ALL
        SELECT place, task, domain, level, num_samples, issued_s, scoring, trained_place, why, sample + 1 FROM each
        WHERE sample + 1 < num_samples
    ) SELECT e.task, e.domain, e.level, e.sample, r.num_tokens, r.ended_s - e.issued_s AS latency_s, CASE
        WHEN e.trained_place IS NULL THEN e.why
        WHEN EXISTS (SELECT 1 FROM batch_rows w WHERE w.place = e.trained_place AND w.sample = e.sample) THEN 'trained'
        ELSE coalesce((
            SELECT 'invalid: ' || w.why FROM rewards w
            WHERE w.task = e.task AND w.sample = e.sample AND w.scoring = e.scoring AND w.why NOTNULL LIMIT 1
        ), CASE WHEN r.num_tokens > 0 AND EXISTS (
            SELECT 1 FROM rewards w
            WHERE w.task = e.task AND w.sample = e.sample AND w.scoring = e.scoring AND w.value NOTNULL
        ) THEN 'quarantined, or too late for its batch' ELSE 'not in its batch' END) END AS fate
    FROM each e LEFT JOIN rollouts r ON r.place = (
        SELECT min(f.place) FROM rollouts f WHERE f.task = e.task AND f.sample = e.sample
    )
"""
DIMENSIONS = {
    "domain": "domain",
    "level": "level",
    "length": "bucket(num_tokens, 'tokens')",
    "latency": "bucket(latency_s, 's')",
}
"""What buckets are made of."""
TRAINED = "trained"
UNDECIDED = ("open", "waiting")
"""Fates that are still to come; they count in neither share."""
MOST_Z = 3.0


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Rollouts that are alike in one respect."""

    name: str
    tasks: int
    rollouts: int
    """Issued."""
    trained: int
    undecided: int
    rate: float
    """Trained, of those decided."""
    share_issued: float
    share_trained: float
    z: float
    """How far the rate is from that over all, in standard errors."""
    reasons: dict[str, int]
    """Why the others did not train."""


class BiasReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was trained on against what was issued, of one run."""

    run: str
    tasks: int
    rollouts: int
    trained: int
    rate: float
    reasons: dict[str, int]
    by: dict[str, tuple[Bucket, ...]]
    """`domain`, `level`, `length`, `latency`."""
    biased: tuple[str, ...]
    """Buckets that train more or less often than chance explains, in words; none rules a bias out, as far as the number
    of tasks allows."""


Row = tuple[str, str, int, int]
"""Bucket, fate, number of rollouts, number of tasks."""


def bucket(value: float | None, unit: str) -> str:
    """Return the power of two that a size does not exceed; what never ended has none."""
    if value is None:
        return "did not end"
    return f"up to {2 ** max(0, math.ceil(math.log2(value))) if value > 1 else 1:g} {unit}"


def bias_of(index: Index, run: str) -> BiasReport:
    """Return the report on a run, by the index."""
    index.db.create_function("bucket", 2, bucket, deterministic=True)
    index.db.execute("DROP TABLE IF EXISTS temp.fates")
    index.db.execute(FATES, (run,))
    by_fate: Counter[str] = Counter(dict(index.ask("SELECT fate, count(*) FROM fates GROUP BY fate")))
    num_tasks = (index.one("SELECT count(DISTINCT task) FROM fates") or (0,))[0]
    rate = rate_of(by_fate)
    by = {name: buckets_of(index, name, what, rate, by_fate) for name, what in DIMENSIONS.items()}
    return BiasReport(
        run=run,
        tasks=num_tasks,
        rollouts=by_fate.total(),
        trained=by_fate[TRAINED],
        rate=rate,
        reasons=reasons_of(by_fate),
        by=by,
        biased=tuple(words for name, buckets in by.items() for words in map(partial_words(name), buckets) if words),
    )


def partial_words(name: str) -> Any:
    """Return what says of a bucket of this respect how it is preferred, nothing where it is not."""

    def words(found: Bucket) -> str:
        if abs(found.z) < MOST_Z:
            return ""
        main = max(found.reasons, key=lambda reason: found.reasons[reason], default="nothing")
        how = "more" if found.z > 0 else "less"
        return f"{name} {found.name}: trains {how} often ({found.rate:.1%}, z {found.z:+.1f}); dropped most by {main}"

    return words


def rate_of(by_fate: Counter[str]) -> float:
    """Return the share that trained of what is decided."""
    decided = by_fate.total() - sum(by_fate[fate] for fate in UNDECIDED)
    return by_fate[TRAINED] / decided if decided else 0.0


def reasons_of(by_fate: Counter[str]) -> dict[str, int]:
    """Return all fates but training, the commonest first."""
    return {fate: count for fate, count in by_fate.most_common() if fate != TRAINED}


def buckets_of(index: Index, name: str, what: str, overall: float, all_fates: Counter[str]) -> tuple[Bucket, ...]:
    """Return the buckets of one respect, in the order of their size where they have one."""
    order = {"length": "min(num_tokens)", "latency": "min(latency_s)"}.get(name, "bucket")
    fates: dict[str, Counter[str]] = defaultdict(Counter)
    query = f"SELECT CAST({what} AS TEXT) AS bucket, fate, count(*) FROM fates GROUP BY 1, 2"  # noqa: S608 own words
    for found, fate, count in index.ask(query):
        fates[found][fate] = count
    query = (
        f"SELECT CAST({what} AS TEXT) AS bucket, count(DISTINCT task), count(DISTINCT task) "  # noqa: S608 own words
        f"- count(DISTINCT CASE WHEN fate IN {UNDECIDED} THEN task END) FROM fates GROUP BY 1 ORDER BY {order}"
    )
    return tuple(
        bucket_of(found, fates[found], tasks=(num_tasks, num_decided), overall=overall, all_fates=all_fates)
        for found, num_tasks, num_decided in list(index.ask(query))
    )


def bucket_of(
    name: str, fates: Counter[str], *, tasks: tuple[int, int], overall: float, all_fates: Counter[str]
) -> Bucket:
    """Return one bucket; `tasks` are those that it has, and those of them that are decided."""
    num_tasks, num_decided = tasks
    rate = rate_of(fates)
    error = math.sqrt(overall * (1 - overall) / num_decided) if num_decided else 0.0
    return Bucket(
        name=name,
        tasks=num_tasks,
        rollouts=fates.total(),
        trained=fates[TRAINED],
        undecided=sum(fates[fate] for fate in UNDECIDED),
        rate=rate,
        share_issued=fates.total() / max(1, all_fates.total()),
        share_trained=fates[TRAINED] / max(1, all_fates[TRAINED]),
        z=(rate - overall) / error if error else 0.0,
        reasons=reasons_of(fates),
    )


def tables_of(report: BiasReport) -> list[Table]:
    """Return the report for people, a table for each respect."""
    tables = []
    for name, buckets in report.by.items():
        table = Table(
            name, "tasks", "rollouts", "issued", "trained", "rate", "z", "dropped by", box=None, pad_edge=False
        )
        for found in buckets:
            reasons = ", ".join(f"{count} {reason}" for reason, count in found.reasons.items())
            shares = (f"{found.share_issued:.1%}", f"{found.share_trained:.1%}", f"{found.rate:.1%}", f"{found.z:+.1f}")
            table.add_row(found.name, str(found.tasks), str(found.rollouts), *shares, reasons)
        tables.append(table)
    return tables
