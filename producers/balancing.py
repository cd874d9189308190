"""The order in which a run's domains come: by the newest mix that was read, or by the settings where there is none.

What must hold: an issuer that comes back goes on as if it had not been away. What it decided before is on the log: each
task says its mix. A place that is missing before one that is there was decided under that one's mix, since a hole is
never wider than what was written at once, under one mix.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from consumers.raw import RawRecord, value_of
from consumers.reader import Reader
from producers.blobs import BlobStore
from producers.dispatch import Choice, Dispatch
from producers.tasks import domain_at
from schemas.config import Settings
from schemas.errors import DecodeError, LogError
from schemas.mixes import TOPIC, MixRevised

OpenReader = Callable[..., Reader]
MISSING = -1


class Issued(msgspec.Struct, frozen=True, gc=False):
    """A `TaskIssued` of which only what was decided matters."""

    task_id: str
    run_id: str
    index: int
    domain: str
    level: int = 0
    split: str = "train"
    mix_version: int = 0


DECODE = msgspec.msgpack.Decoder(Issued).decode


class Ledger:
    """What was decided for each place of a run's sequence, in 12 bytes a place."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self.domains: list[str] = []
        self._slots: dict[str, int] = {}
        self._domain, self._level, self._version = array("i"), array("i"), array("i")

    def __len__(self) -> int:
        """Return one past the last place that is there."""
        return len(self._domain)

    def take(self, task: Issued) -> None:
        """Take a task; of two for one place the first counts."""
        if (task.run_id, task.split) != (self._run_id, "train") or task.index < 0:
            return
        short = task.index + 1 - len(self._domain)
        if short > 0:
            for column in (self._domain, self._level, self._version):
                column.extend([MISSING] * short)
        if self._domain[task.index] != MISSING:
            return
        if task.domain not in self._slots:
            self._slots[task.domain] = len(self.domains)
            self.domains.append(task.domain)
        self._domain[task.index] = self._slots[task.domain]
        self._level[task.index], self._version[task.index] = task.level, task.mix_version

    def at(self, index: int) -> tuple[str, int, int] | None:
        """Return domain, level and mix version of a place; None where it is missing."""
        slot = self._domain[index]
        return None if slot == MISSING else (self.domains[slot], self._level[index], self._version[index])

    @property
    def first_missing(self) -> int:
        """Return the first place that is missing."""
        return next((place for place, slot in enumerate(self._domain) if slot == MISSING), len(self))

    def version_for(self, index: int) -> int:
        """Return the mix version of a place, or of the next one that is there."""
        return next(version for version in self._version[index:] if version != MISSING)


def read_ledger(open_reader: OpenReader, run_id: str, blobs: BlobStore) -> Ledger:
    """Return what the tasks on the log say. Raises LogError."""
    ledger = Ledger(run_id)
    reader = open_reader(["tasks"], start="beginning", bounded=True)
    try:
        for raw in reader.records():
            task = issued_in(raw, blobs)
            if task is not None:
                ledger.take(task)
    finally:
        reader.close()
    return ledger


def issued_in(raw: RawRecord, blobs: BlobStore) -> Issued | None:
    """Return what a record says of a task; None for what is no task, which the generator puts aside."""
    try:
        task = DECODE(value_of(raw, blobs) or b"")
    except (DecodeError, msgspec.MsgspecError):
        return None
    return task if task.task_id.encode() == raw.key else None


class Balance:
    """One run's order of domains, as far as it is decided."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.dispatch = Dispatch()
        self.mix: MixRevised | None = None
        """The newest."""
        self._holes: dict[int, Choice | None] = {}

    def take(self, record: Any) -> bool:
        """Take what stands on `mixes`; returns whether it is a newer mix of this run."""
        is_news = (
            isinstance(record, MixRevised)
            and record.run_id == self._settings.run
            and (self.mix is None or record.version > self.mix.version)
        )
        if is_news:
            self.mix = record
        return is_news

    @property
    def is_open(self) -> bool:
        """Return whether anything is to be issued: a mix may have stopped all domains."""
        return self.mix is None or any(one.weight > 0 for one in self.mix.domains.values())

    def choose(self, index: int) -> Choice | None:
        """Return what the place is; None for what the settings say. Call it once a place, while there is a weight."""
        if index in self._holes:
            return self._holes.pop(index)
        return self._decide(index, self.mix)

    def recall(self, ledger: Ledger, mixes: Iterator[MixRevised]) -> None:
        """Learn what was issued and under which mixes. Raises LogError where one of those is not on the log."""
        first = ledger.first_missing
        issued, charged, under = Counter[str](), Counter[str](), Counter[int]()
        for index in range(first):
            domain, _, version = ledger.at(index) or ("", 0, 0)
            issued[domain] += 1
            under[version] += 1
            if version:
                charged[domain] += 1
        self.dispatch.note_many(issued, charged)
        later = {ledger.version_for(index) for index in range(first, len(ledger))} - {0}
        kept: dict[int, MixRevised] = {}
        for mix in mixes:
            if self.take(mix):
                self.dispatch.earn(mix, under.pop(mix.version, 0))
                if mix.version in later:
                    kept[mix.version] = mix
        if missing := sorted((under.keys() - {0}) | (later - kept.keys())):
            raise LogError(
                f"{TOPIC}: tasks of run {self._settings.run!r} were issued under mix {missing[0]}, which is not on the "
                "log; restore the topic, or choose another run"
            )
        for index in range(first, len(ledger)):
            there, version = ledger.at(index), ledger.version_for(index)
            if there is None:
                self._holes[index] = self._decide(index, kept.get(version))
            else:
                self.dispatch.note(there[0], kept.get(version))

    def _decide(self, index: int, mix: MixRevised | None) -> Choice | None:
        choice = None if mix is None else self.dispatch.choose(mix)
        if choice is None:
            self.dispatch.note(domain_at(self._settings, index), None)
            return None
        self.dispatch.note(choice.domain, mix)
        return choice


def read_mixes(open_reader: OpenReader) -> Iterator[MixRevised]:
    """Yield what stands on `mixes` now, of any run. Raises LogError."""
    reader = open_reader([TOPIC], start="beginning", bounded=True, on_undecodable=lambda raw, error: None)
    try:
        for event in reader:
            if isinstance(event.record, MixRevised):
                yield event.record
    finally:
        reader.close()
