"""Chained digests of stretches of the log: made for a seal, and made again to compare.

    digest(n + 1) = sha256(digest(n) + offset + timestamp + key + value + headers), each with its length before it

What must hold: the bytes are those on the log, undecoded; a record that is edited, dropped, added or moved changes the
digest of its stretch and of all that follow in its partition.
"""

import hashlib
import struct
from collections import defaultdict, deque
from collections.abc import Iterable

import msgspec

from consumers.bounds import Bounds
from consumers.feed import OpenReader
from consumers.offsets import At
from consumers.raw import RawRecord
from schemas.errors import LogError
from schemas.events import Position
from schemas.ids import derive_id
from schemas.seals import LogSealed

TOPIC = "seals"
PREFIX = "sha256:"
ABSENT = 0xFFFFFFFF


class Chain:
    """The digest of a stretch that grows record by record."""

    def __init__(self, previous: str) -> None:
        """`previous` is the digest of what comes before, empty at the beginning."""
        self.previous = previous
        self._digest = bytes.fromhex(previous.removeprefix(PREFIX))
        self.num_records = 0

    @property
    def digest(self) -> str:
        """Return the digest of all that was added."""
        return PREFIX + self._digest.hex()

    def add(self, raw: RawRecord) -> None:
        """Take the next record."""
        digest = hashlib.sha256(self._digest)
        digest.update(struct.pack(">qq", raw.position.offset, raw.timestamp_ms))
        add_part(digest, raw.key)
        add_part(digest, raw.value)
        for name, value in raw.headers:
            add_part(digest, name.encode())
            add_part(digest, value)
        self._digest = digest.digest()
        self.num_records += 1


def add_part(digest: "hashlib._Hash", part: bytes | None) -> None:
    """Add bytes with their length, or that there are none."""
    digest.update(struct.pack(">I", ABSENT if part is None else len(part)))
    if part is not None:
        digest.update(part)


def seal_id(seal: LogSealed) -> str:
    """Return the event id of a seal: of one stretch there is one, so that a second cannot replace the first."""
    return derive_id(f"{seal.topic}[{seal.partition}]", "log_sealed", f"{seal.first}/{seal.end}")


def last_seals(seals: Iterable[LogSealed]) -> dict[At, LogSealed]:
    """Return each partition's seal that reaches furthest; of those of one stretch the first."""
    found: dict[At, LogSealed] = {}
    for seal in seals:
        at = (seal.topic, seal.partition)
        if at not in found or seal.end > found[at].end:
            found[at] = seal
    return found


class Sealer:
    """What was not sealed yet, up to the bounds. `add` the records from `start` on, then take the `seals`."""

    def __init__(self, bounds: Bounds, seals: Iterable[LogSealed]) -> None:
        """`seals` are all that there are. Raises LogError where the log ends before a seal does."""
        last = last_seals(seals)
        self._ends = {at: end for at, (_, end) in bounds.items()}
        self._chains: dict[At, Chain] = {}
        self.start: dict[At, int] = {}
        """Where to read from, by partition; none where all is sealed."""
        for at, (first, end) in bounds.items():
            seal = last.get(at)
            if seal is not None and seal.end > end:
                raise LogError(
                    f"{Position(*at, end)}: the log ends here, but {at[0]}[{at[1]}] is sealed up to {seal.end}: sealed "
                    "history was removed, or the topic made anew; nothing is sealed over that"
                )
            begin = max(first, seal.end if seal else first)
            if at[0] != TOPIC and begin < end:
                self.start[at] = begin
                self._chains[at] = Chain(seal.digest if seal and seal.end == begin else "")

    def add(self, raw: RawRecord) -> None:
        """Take a record; each partition's in their order."""
        at = (raw.position.topic, raw.position.partition)
        if raw.position.offset < self._ends[at]:
            self._chains[at].add(raw)

    def seals(self) -> list[LogSealed]:
        """Return the seals of what was added."""
        return [
            LogSealed(
                topic=at[0],
                partition=at[1],
                first=self.start[at],
                end=self._ends[at],
                num_records=chain.num_records,
                previous=chain.previous,
                digest=chain.digest,
            )
            for at, chain in self._chains.items()
            if chain.num_records
        ]


def read_seals(open_reader: OpenReader, bounds: Bounds) -> list[LogSealed]:
    """Return the seals that there are, repeats left out; what cannot be read is passed over."""
    start = {at: first for at, (first, _) in bounds.items() if at[0] == TOPIC}
    if not start:
        return []
    reader = open_reader([TOPIC], start=start, bounded=True, on_undecodable=lambda _raw, _error: None)
    try:
        return [event.record for event in reader if isinstance(event.record, LogSealed)]
    finally:
        reader.close()


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A seal that does not hold."""

    position: Position
    """First record of the stretch."""
    what: str


class SealCheck:
    """Seals compared with what is there now. `add` every record, then `finish`."""

    def __init__(self, seals: Iterable[LogSealed], bounds: Bounds) -> None:
        self._waiting: dict[At, deque[LogSealed]] = defaultdict(deque)
        self._open: dict[At, list[tuple[LogSealed, Chain]]] = defaultdict(list)
        self.broken: list[Broken] = []
        self.num_checked = self.num_gone = 0
        """Seals compared, and seals of which retention removed a part."""
        self.sealed_to: dict[At, int] = {}
        digests: dict[tuple[At, int], set[str]] = defaultdict(set)
        for seal in sorted(seals, key=lambda seal: (seal.first, seal.end)):
            at = (seal.topic, seal.partition)
            if seal.previous and seal.previous not in digests[at, seal.first]:
                self._break(seal, f"goes on from {seal.previous}, which no seal before it has")
            digests[at, seal.end].add(seal.digest)
            self.sealed_to[at] = max(seal.end, self.sealed_to.get(at, 0))
            if seal.first < bounds.get(at, (0, 0))[0]:
                self.num_gone += 1
            else:
                self._waiting[at].append(seal)

    def add(self, raw: RawRecord) -> None:
        """Take a record; each partition's in their order."""
        at, offset = (raw.position.topic, raw.position.partition), raw.position.offset
        waiting = self._waiting.get(at)
        while waiting and waiting[0].first <= offset:
            seal = waiting.popleft()
            self._open[at].append((seal, Chain(seal.previous)))
        still_open = []
        for seal, chain in self._open.get(at, ()):
            if offset >= seal.end:
                self._compare(seal, chain)
            else:
                chain.add(raw)
                still_open.append((seal, chain))
        if at in self._open:
            self._open[at] = still_open

    def finish(self) -> list[Broken]:
        """Compare what is left, and return every seal that does not hold."""
        for opened in self._open.values():
            for seal, chain in opened:
                self._compare(seal, chain)
        for waiting in self._waiting.values():
            for seal in waiting:
                self._compare(seal, Chain(seal.previous))
        self._open.clear()
        self._waiting.clear()
        return self.broken

    def _compare(self, seal: LogSealed, chain: Chain) -> None:
        self.num_checked += 1
        if chain.num_records != seal.num_records:
            self._break(seal, f"had {seal.num_records} records up to {seal.end}, now there are {chain.num_records}")
        elif chain.digest != seal.digest:
            self._break(seal, f"was sealed up to {seal.end} as {seal.digest}, and is {chain.digest} now")

    def _break(self, seal: LogSealed, what: str) -> None:
        self.broken.append(Broken(position=Position(seal.topic, seal.partition, seal.first), what=what))
