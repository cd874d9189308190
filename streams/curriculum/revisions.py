"""The revisions that are on the log, and the fold done again from the log alone."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import msgspec

from consumers.reader import Reader
from schemas.errors import LogError
from schemas.mixes import TOPIC, MixRevised
from streams.curriculum.fold import MixFold, Rules
from streams.curriculum.following import Follower

OpenReader = Callable[..., Reader]


class Revisions:
    """One run's revisions in their order: of a version the first on the log counts."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self.version = 0

    def take(self, record: Any) -> bool:
        """Return whether the record is the next revision. Raises LogError where one before it is missing."""
        if not isinstance(record, MixRevised) or record.run_id != self._run_id or record.version <= self.version:
            return False
        if record.version != self.version + 1:
            raise LogError(
                f"{TOPIC}: version {record.version} of run {self._run_id!r} follows {self.version}; wanted all of them:"
                " restore the topic, or choose another run"
            )
        self.version = record.version
        return True


def read_revisions(open_reader: OpenReader, run_id: str) -> Iterator[MixRevised]:
    """Return a run's revisions that are on the log at this moment. Raises LogError, also while it goes on."""
    reader = open_reader([TOPIC], start="beginning", bounded=True, on_undecodable=lambda raw, error: None)
    return revisions_in(reader, run_id)


def revisions_in(reader: Reader, run_id: str) -> Iterator[MixRevised]:
    """Yield a run's revisions, and close the reader in the end."""
    revisions = Revisions(run_id)
    with closing(reader):
        for event in reader:
            if revisions.take(event.record):
                yield event.record


def refold(
    fold: MixFold, follower: Follower, recorded: Iterable[MixRevised]
) -> Iterator[tuple[MixRevised, MixRevised]]:
    """Fold again what each revision was folded from; yields each as it stands and as it comes out. Raises LogError."""
    for mix in recorded:
        if mix.config:
            fold.rules = rules_in(mix)
        for record in follower.stretch(mix.ends):
            fold.take(record)
        yield mix, fold.revise(mix.ends)


def rules_in(mix: MixRevised) -> Rules:
    """Return the rules that a revision says it went by. Raises LogError."""
    try:
        return msgspec.json.decode(mix.config, type=Rules)
    except msgspec.MsgspecError as error:
        raise LogError(
            f"{TOPIC}: version {mix.version} of run {mix.run_id!r} went by settings that cannot be read: {error}; "
            "a newer rollog may have written it"
        ) from error
