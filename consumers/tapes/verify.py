"""Finds what is wrong with a tape: every digest, the chain, the index, every record, every offset.

What must hold: a tape without faults is byte for byte what the writer wrote, and every record decodes that decoded when
the tape was made. A frame that is damaged does not hide those after it, as long as the index is whole.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from consumers.offsets import At
from consumers.raw import to_event
from consumers.tapes.file import TapeFile, check_head
from consumers.tapes.format import (
    FOOTER,
    FRAME,
    HEAD,
    MARKER,
    MAX_FRAME_BYTES,
    FrameEntry,
    Item,
    Sealed,
    TapeBlob,
    TapeRecord,
    TapeSkip,
    chain,
    first_digest,
    name_of,
    open_seal,
    unpack_body,
)
from schemas.errors import DecodeError, TapeError
from schemas.events import Position

OnProgress = Callable[[int, int], None]
"""Hears of bytes done and bytes in all."""


class TapeFault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong."""

    frame: int | None
    """None where it is no frame: head, index, footer."""
    at: int
    """Byte in the file."""
    where: str
    """`topic[partition]@offset`, a range of them, a blob; empty where that is not known."""
    what: str

    def __str__(self) -> str:
        """Return it as a line for people."""
        place = f"byte {self.at}" if self.frame is None else f"frame {self.frame} at byte {self.at}"
        return f"{place}: {self.where + ': ' if self.where else ''}{self.what}"


class TapeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a tape is, and all that is wrong with it."""

    file: str
    digest: str
    """Of the whole tape; empty where its index cannot be read."""
    num_bytes: int
    num_frames: int
    num_records: int
    num_blobs: int
    num_undecodable: int
    """Records that could not be decoded when the tape was made; they are on it as they were."""
    ranges: dict[str, tuple[int, int]]
    """First offset and one past the last, by `topic[partition]`."""
    faults: tuple[TapeFault, ...]


class Verifier:
    """One pass over a tape's frames; asks for no more than a frame of memory."""

    def __init__(self, tape: TapeFile) -> None:
        self.tape = tape
        self.faults: list[TapeFault] = []
        self.num_records = self.num_blobs = self.num_undecodable = 0
        self._next: dict[At, int] = {at: start for at, (start, _) in tape.ranges.items()}

    def run(self, on_progress: OnProgress) -> None:
        """Look at every frame, then at the end of every partition."""
        at = HEAD.size
        for number, entry in enumerate(self.tape.index.frames):
            if entry.at != at:
                self._fault(number, entry.covers, f"the frame before it ends at byte {at}; nothing may lie between")
            at = entry.at + FRAME.size + entry.stored_size
            self._frame(number, entry)
            on_progress(at, self.tape.num_bytes)
        for (topic, partition), (_, end) in self.tape.ranges.items():
            reached = self._next[topic, partition]
            if reached != end:
                where = str(Position(topic, partition, reached))
                what = f"offsets to {end - 1} are missing; the tape says that it has all before {end}"
                self.faults.append(TapeFault(frame=None, at=at, where=where, what=what))

    def _frame(self, number: int, entry: FrameEntry) -> None:
        previous = self.tape.index.frames[number - 1].digest if number else first_digest()
        try:
            head = self.tape.read(entry.at, FRAME.size)
            stored = self.tape.read(entry.at + FRAME.size, entry.stored_size)
        except TapeError as error:
            self._fault(number, entry.covers, str(error))
            self._pass_over(entry)
            return
        if head != FRAME.pack(MARKER, entry.stored_size, entry.size, entry.digest):
            self._fault(number, entry.covers, "its head is not as the index says")
        if chain(previous, stored, entry.size) != entry.digest:
            self._fault(number, entry.covers, "its bytes do not have its digest, chained to the frame before it")
        try:
            items = [self._item(number, sealed) for sealed in unpack_body(stored, entry.size)]
        except ValueError as error:
            self._fault(number, entry.covers, str(error))
            self._pass_over(entry)
            return
        self._content(number, entry, items)

    def _item(self, number: int, sealed: Sealed) -> Item | None:
        try:
            return open_seal(sealed)
        except ValueError as error:
            self._fault(number, "", str(error))
            return None

    def _content(self, number: int, entry: FrameEntry, items: list[Item | None]) -> None:
        """Compare a frame's items with its entry, and look at each."""
        records = [item for item in items if isinstance(item, TapeRecord)]
        times = [record.timestamp_ms for record in records] or [0]
        found = (len(records), min(times), max(times))
        if None not in items and found != (entry.num_records, entry.min_ms, entry.max_ms):
            what = f"holds {found[0]} records of {found[1]} to {found[2]} ms; the index says {entry.num_records} of "
            self._fault(number, entry.covers, f"{what}{entry.min_ms} to {entry.max_ms} ms")
        for item in items:
            if isinstance(item, TapeBlob):
                self._blob(number, entry, item)
            elif item is not None:
                self._offset(number, entry, item)
                if isinstance(item, TapeRecord):
                    self._record(number, item)
        if not entry.blob:
            if None in items:
                self._pass_over(entry)
            elif (reached := self._next.get((entry.topic, entry.partition))) != entry.end:
                self._fault(number, entry.covers, f"ends before offset {reached}")
                self._pass_over(entry)

    def _offset(self, number: int, entry: FrameEntry, item: TapeRecord | TapeSkip) -> None:
        at = (item.topic, item.partition)
        if entry.blob or at != (entry.topic, entry.partition) or at not in self._next:
            self._fault(number, name_of(item), f"does not belong in a frame of {entry.covers}")
            return
        wanted = self._next[at]
        if item.offset > wanted:
            missing = str(Position(*at, wanted))
            self._fault(number, missing, f"offsets to {item.offset - 1} are missing, and nothing says why")
        elif item.offset < wanted:
            self._fault(number, name_of(item), f"comes after offset {wanted - 1}; wanted ascending offsets")
        self._next[at] = item.end if isinstance(item, TapeSkip) else item.offset + 1

    def _record(self, number: int, record: TapeRecord) -> None:
        self.num_records += 1
        try:
            to_event(record.raw(), self.tape)
        except DecodeError as error:
            if record.problem:
                self.num_undecodable += 1
            else:
                self._fault(number, name_of(record), f"cannot be decoded: {error}")
        except TapeError as error:
            self._fault(number, name_of(record), f"its blob cannot be read: {error}")

    def _blob(self, number: int, entry: FrameEntry, blob: TapeBlob) -> None:
        self.num_blobs += 1
        digest = hashlib.sha256(blob.value).hexdigest()
        if not digest == blob.sha256 == entry.blob:
            self._fault(number, entry.covers, f"holds sha256:{digest}")

    def _pass_over(self, entry: FrameEntry) -> None:
        """Go on after a frame that was found wanting, so that it is one fault and not one more for all that follow."""
        if (entry.topic, entry.partition) in self._next and not entry.blob:
            self._next[entry.topic, entry.partition] = entry.end

    def _fault(self, number: int, where: str, what: str) -> None:
        at = self.tape.index.frames[number].at
        self.faults.append(TapeFault(frame=number, at=at, where=where, what=what))


def verify(path: Path, *, digest: str = "", on_progress: OnProgress = lambda done, of: None) -> TapeReport:
    """Return what the tape is and all that is wrong with it. Raises TapeError only where there is no such file.

    `digest` is the tape's, where it was kept elsewhere: by it alone a tape is known that was forged, every digest anew.
    """
    if not path.is_file():
        raise TapeError(f"{path}: no such file; wanted a tape")
    try:
        tape = TapeFile(path)
    except TapeError as error:
        ends = TapeFault(frame=None, at=error.at, where="", what=str(error))
        return report(path, None, sorted([*scan(path), ends], key=lambda fault: fault.at))
    try:
        verifier = Verifier(tape)
        verifier.run(on_progress)
        if digest and digest != tape.digest:
            what = f"the tape's digest is {tape.digest}, wanted {digest}: it is another tape"
            verifier.faults.append(TapeFault(frame=None, at=tape.num_bytes - FOOTER.size, where="", what=what))
        return report(path, verifier, verifier.faults)
    finally:
        tape.close()


def report(path: Path, verifier: Verifier | None, faults: list[TapeFault]) -> TapeReport:
    """Return the report of a pass; there was none where the index cannot be read."""
    ranges = {} if verifier is None else verifier.tape.ranges
    return TapeReport(
        file=str(path),
        digest="" if verifier is None else verifier.tape.digest,
        num_bytes=path.stat().st_size,
        num_frames=0 if verifier is None else len(verifier.tape.index.frames),
        num_records=0 if verifier is None else verifier.num_records,
        num_blobs=0 if verifier is None else verifier.num_blobs,
        num_undecodable=0 if verifier is None else verifier.num_undecodable,
        ranges={f"{topic}[{partition}]": span for (topic, partition), span in ranges.items()},
        faults=tuple(faults),
    )


def scan(path: Path) -> Iterator[TapeFault]:
    """Yield what is wrong with the frames of a file whose index cannot be used, as far as one leads to the next."""
    with path.open("rb") as file:
        try:
            check_head(path, file.read(HEAD.size))
        except TapeError:
            return
        digest, number = first_digest(), 0
        while len(head := file.read(FRAME.size)) == FRAME.size and head.startswith(MARKER):
            at = file.tell() - FRAME.size
            _, stored_size, size, sealed_digest = FRAME.unpack(head)
            stored = file.read(stored_size) if max(stored_size, size) <= MAX_FRAME_BYTES else b""
            if len(stored) != stored_size:
                yield TapeFault(frame=number, at=at, where="", what=f"the file has not its {stored_size} bytes")
                return
            if chain(digest, stored, size) != sealed_digest:
                what = f"its bytes do not have its digest, chained to the frame before it{whereabouts(stored, size)}"
                yield TapeFault(frame=number, at=at, where="", what=what)
            digest, number = sealed_digest, number + 1


def whereabouts(stored: bytes, size: int) -> str:
    """Return what a damaged frame seems to hold, for messages; empty where that cannot be told."""
    try:
        names = [name_of(open_seal(sealed)) for sealed in unpack_body(stored, size)]
    except ValueError as error:
        return f"; {error}"
    return f"; it holds {names[0]} to {names[-1]}" if names else ""
