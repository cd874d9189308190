"""What the mix of a run is, and whether the log bears it out: each revision folded again, each task decided again."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from consumers.reader import Reader, end_offsets
from producers.balancing import Ledger, read_ledger
from producers.blobs import BlobStore
from producers.dispatch import Dispatch
from producers.tasks import domain_at
from schemas.config import LogSettings, Settings
from schemas.errors import ConfigError
from schemas.mixes import TOPIC, DomainMix, MixRevised
from schemas.policies import PolicyPublished, newest_for_use
from streams.curriculum.fold import MixFold, Rules
from streams.curriculum.following import Follower, door, topics_of
from streams.curriculum.revisions import read_revisions, refold

OnProgress = Callable[[int, int], None]
MOST_SHOWN = 20
"""Differences that are told; all are counted."""


class Verdict(msgspec.Struct, kw_only=True):
    """What came of doing it again."""

    run: str
    match: bool = True
    num_mixes: int = 0
    num_tasks: int = 0
    """Issued under a mix."""
    num_by_settings: int = 0
    """Issued under none."""
    num_differences: int = 0
    differences: list[str] = []

    def differ(self, what: str) -> None:
        """Note what does not come out as it stands."""
        self.match = False
        self.num_differences += 1
        if len(self.differences) < MOST_SHOWN:
            self.differences.append(what)


def latest_mix(log: LogSettings, run_id: str, *, blob_dir: Path) -> MixRevised:
    """Return the newest revision. Raises ConfigError where there is none, LogError."""
    newest = None
    for mix in read_revisions(door(log, blob_dir), run_id):
        newest = mix
    if newest is None:
        raise ConfigError(
            f"run {run_id!r} has no mix on this log: set curriculum.enabled = true and start its curriculum service"
        )
    return newest


def versions_of(log: LogSettings, settings: Settings, *, blob_dir: Path) -> list[PolicyPublished]:
    """Return the published versions of the run's policy. Raises LogError."""
    reader = door(log, blob_dir)(["policies"], start="beginning", bounded=True, on_undecodable=lambda raw, error: None)
    with closing(reader):
        records = [event.record for event in reader if isinstance(event.record, PolicyPublished)]
    return [one for one in records if (one.run_id, one.policy) == (settings.run, settings.policy.name)]


def verify_mixes(settings: Settings, *, blob_dir: Path, on_progress: OnProgress = lambda done, total: None) -> Verdict:
    """Fold and decide everything again, from the log alone. Raises LogError."""
    open_reader: Callable[..., Reader] = door(settings.log, blob_dir)
    verdict, blobs = Verdict(run=settings.run), BlobStore(blob_dir)
    # Tasks before mixes, and mixes before what they were folded from: of a run that goes on, nothing is then missing.
    ledger = read_ledger(open_reader, settings.run, blobs)
    for_tasks = read_revisions(open_reader, settings.run)
    for_fold = read_revisions(open_reader, settings.run)
    num_about = sum(end_offsets(settings.log, [TOPIC]).values())
    with closing(Follower(open_reader, topics_of(adapts=True), blobs, bounded=True)) as follower:
        for mix, again in refold(MixFold(Rules.of(settings, {})), follower, for_fold):
            verdict.num_mixes += 1
            on_progress(verdict.num_mixes, num_about)
            for what in differences(mix, again):
                verdict.differ(f"mix {mix.version}: {what}")
    check_tasks(settings, ledger, for_tasks, verdict)
    return verdict


def differences(mix: MixRevised, again: MixRevised) -> Iterator[str]:
    """Yield in what a revision differs from what its events make."""
    for name in MixRevised.__struct_fields__:
        got, wanted = getattr(mix, name), getattr(again, name)
        if got == wanted:
            continue
        if name != "domains":
            yield f"{name} is {got!r}, the log gives {wanted!r}"
            continue
        for domain in sorted(got.keys() | wanted.keys()):
            yield from (f"{domain}: {what}" for what in domain_differences(got.get(domain), wanted.get(domain)))


def domain_differences(got: DomainMix | None, wanted: DomainMix | None) -> Iterator[str]:
    """Yield in what one domain of a revision differs."""
    if got is None or wanted is None:
        yield "is not in it" if got is None else "is in it, and the log gives none"
        return
    for name in DomainMix.__struct_fields__:
        if getattr(got, name) != getattr(wanted, name):
            yield f"{name} is {getattr(got, name)!r}, the log gives {getattr(wanted, name)!r}"


def check_tasks(settings: Settings, ledger: Ledger, mixes: Iterator[MixRevised], verdict: Verdict) -> None:
    """Decide domain and level of every task again, in the order of their places."""
    dispatch, mix = Dispatch(), None
    for index in range(len(ledger)):
        there, version = ledger.at(index), ledger.version_for(index)
        if version == 0:
            dispatch.note(there[0] if there else domain_at(settings, index), None)
            verdict.num_by_settings += there is not None
            continue
        while mix is None or mix.version < version:
            mix = next(mixes, None)
            if mix is None:
                verdict.differ(f"task {index}: issued under mix {version}, which is not on the log")
                return
        if mix.version > version:
            verdict.differ(f"task {index}: issued under mix {version}, after one that was issued under {mix.version}")
            return
        choice = dispatch.choose(mix)
        wanted = None if choice is None else (choice.domain, choice.level)
        if there is not None:
            verdict.num_tasks += 1
            if there[:2] != wanted:
                verdict.differ(f"task {index}: {there[0]} at level {there[1]}, mix {version} gives {shown(wanted)}")
        dispatch.note(there[0] if there else wanted[0] if wanted else "", mix)


def shown(wanted: tuple[str, int] | None) -> str:
    """Return a decision for people."""
    return "nothing" if wanted is None else f"{wanted[0]} at level {wanted[1]}"


def tree_of(mix: MixRevised, versions: list[PolicyPublished], shares: Mapping[str, float] | None) -> dict[str, Any]:
    """Return a mix for machines, with what versions of the policy are for use, and effective shares where asked for."""
    tree: dict[str, Any] = msgspec.to_builtins(mix)
    newest, for_use = max((one.version for one in versions), default=None), newest_for_use(versions)
    policy = {"newest": newest, "for_use": None if for_use is None else for_use.version}
    more = {} if shares is None else {"effective_share": shares}
    return {name: value for name, value in tree.items() if name != "config"} | {"policy": policy} | more
