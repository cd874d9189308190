"""A pass over history, planned, divided among processes, and added up."""

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Thread

from consumers.commands import read_recalls
from consumers.history.ranges import Range, Span, find_range
from consumers.history.reader import TOPICS
from consumers.offsets import LATEST, At, offsets_at, open_consumer
from consumers.reader import Reader
from producers.publisher import Publisher
from rollog.selection import Options
from schemas.config import LogSettings, Settings
from schemas.errors import ConfigError, StuckError
from schemas.scorings import LIVE, Scoring, VerifierChoice, scoring_of
from streams.assembler import read_context_tokens
from streams.lanes import judge_environment
from streams.rescoring.declared import Declared, check_declared, declare, read_declared
from streams.rescoring.judge import scoring_for
from streams.rescoring.known import since_ms
from streams.rescoring.passes import Outcome, Plan, run_pass
from streams.rescoring.rebatch import Rebatched, Rebatching, rebatch

OnStart = Callable[[int], None]
OnProgress = Callable[[int], None]


def make_plan(
    settings: Settings,
    choice: VerifierChoice | None,
    selection: Options,
    span: Span,
    *,
    blob_dir: Path,
    scoring_id: str = "",
    applies: bool = False,
) -> Plan:
    """Return what is to be done; with `applies` the scoring's id is taken on the log. Raises ConfigError, LogError."""
    log = settings.log
    found = find_range(log, TOPICS, span)
    scoring = scoring_for(choice, scoring_id)
    fills = LIVE if selection.only_invalid else ""
    declared = read_declared(log, blob_dir=blob_dir).get(scoring.scoring_id)
    check_declared(scoring, declared, fills=fills)
    may_be_dear = choice is None or choice.kind == "parts"
    timeout_s = settings.verifier.dear_timeout_s if may_be_dear else settings.verifier.timeout_s
    plan = Plan(
        log=log,
        blob_dir=blob_dir,
        range=found,
        scoring=scoring,
        selection=selection,
        applies=applies,
        known_from={} if declared is None else rewards_since(log, found, declared.since_s),
        min_valid=settings.assembler.min_valid,
        timeout_s=timeout_s,
        environment=judge_environment(settings.verifier.judge),
    )
    if applies and declared is None:
        publisher = Publisher(log, source=plan.source, blob_dir=blob_dir)
        try:
            declare(publisher, scoring, fills=fills)
        finally:
            publisher.close()
        # Whoever took the id for something else in the meantime was first.
        check_declared(scoring, read_declared(log, blob_dir=blob_dir).get(scoring.scoring_id), fills=fills)
    return plan


def rewards_since(log: LogSettings, found: Range, since_s: float) -> dict[At, int]:
    """Return the first offset of each partition of `rewards` that may hold a reward of a scoring declared then."""
    wanted = {("rewards", partition): since_ms(since_s) for partition in found.partitions}
    with closing(open_consumer(log)) as consumer:
        starts = offsets_at(consumer, log, wanted)
        ends = offsets_at(consumer, log, dict.fromkeys(wanted, LATEST))
    return {at: offset for at, offset in starts.items() if 0 <= offset < ends[at]}


def run_plan(plan: Plan, *, num_workers: int, on_progress: OnProgress) -> Outcome:
    """Do it all, in this process where one is enough. Raises what a pass raises; StuckError where a worker dies."""
    partitions = plan.range.partitions
    if num_workers < 1:
        raise ConfigError(f"--workers {num_workers}: wanted 1 or more")
    if num_workers == 1 or len(partitions) == 1:
        return run_pass(plan, partitions, on_progress)
    outcome = Outcome()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(num_workers, len(partitions)), context, initializer=end_with_parent) as pool:
        shares = {pool.submit(run_pass, plan, [partition]): partition for partition in by_size(plan.range)}
        try:
            for share in as_completed(shares):
                outcome.merge(share.result())
                on_progress(plan.range.num_records([shares[share]]))
        except BrokenProcessPool as error:
            raise StuckError("a worker of the pass ended by itself; run it again, and it goes on") from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return outcome


def by_size(found: Range) -> Sequence[int]:
    """Return the partitions, the largest first, so that no worker is left with one at the end."""
    return sorted(found.partitions, key=lambda partition: (-found.num_records([partition]), partition))


def end_with_parent() -> None:
    """End this process when the one that started it ends, however it does."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, name="parent", daemon=True).start()


def find_scoring(known: Mapping[str, Declared], scoring_id: str) -> Scoring:
    """Return a scoring that is declared on the log. Raises ConfigError."""
    declared = known.get(scoring_id)
    if declared is None:
        ids = ", ".join(sorted(known)) or "none"
        raise ConfigError(f"scoring {scoring_id!r} is not on this log; there are: {ids}")
    scoring = scoring_of(declared.choice, version=declared.verifier_version, scoring_id=scoring_id)
    check_declared(scoring, declared, fills=declared.fills)
    return scoring


def plan_comparison(settings: Settings, first: str, second: str, *, blob_dir: Path) -> Plan:
    """Return the pass that scores nothing and compares what two scorings have. Raises ConfigError, LogError.

    What is held is bounded where `first` is the live one; the rewards of another come at the end of the log, and all
    groups of a partition are held until then.
    """
    log = settings.log
    found = find_range(log, TOPICS, Span())
    known = read_declared(log, blob_dir=blob_dir)
    if first != LIVE:
        find_scoring(known, first)
    scoring = find_scoring(known, second)
    return Plan(
        log=log,
        blob_dir=blob_dir,
        range=found,
        scoring=scoring,
        selection=Options(),
        against=first,
        only_known=True,
        known_from=rewards_since(log, found, known[second].since_s),
        min_valid=settings.assembler.min_valid,
    )


def rebatch_scoring(settings: Settings, scoring_id: str, *, blob_dir: Path, applies: bool) -> Rebatched:
    """Make the batches of a scoring that is on the log. Raises ConfigError, LogError."""
    log = settings.log
    found = find_range(log, TOPICS, Span())
    known = read_declared(log, blob_dir=blob_dir)
    scoring = find_scoring(known, scoring_id)
    declared = known[scoring_id]
    plan = Rebatching(
        log=log,
        blob_dir=blob_dir,
        range=found,
        scoring=scoring,
        known_from=rewards_since(log, found, declared.since_s),
        assembler=settings.assembler,
        context_tokens=read_context_tokens(Path(settings.policy.base)),
        fills=declared.fills,
        recalls=read_recalls(partial(Reader, log, blob_dir=blob_dir)),
    )
    if not applies:
        return rebatch(plan, None)
    publisher = Publisher(log, source="rollog/rebatch", blob_dir=blob_dir)
    try:
        return rebatch(plan, publisher)
    finally:
        publisher.close()
