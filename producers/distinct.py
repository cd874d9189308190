"""Questions that are not asked again so soon: of a domain's last tasks no two ask the same.

A question that was asked shortly before is drawn again, and the task says how often. What must hold: memory is the
window; an issuer that comes back has the window that the log shows.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from consumers.raw import RawRecord, value_of
from producers.blobs import BlobStore
from schemas.content import record_digest
from schemas.errors import DecodeError
from schemas.tasks import ExecutionSpec, TaskIssued

MOST_DRAWS = 16
"""After which a question comes again all the same: the domain has too few."""


class Question(msgspec.Struct, frozen=True):
    """A `TaskIssued` of which only the question matters."""

    task_id: str
    run_id: str
    index: int
    domain: str
    prompt: str
    split: str = "train"
    execution: ExecutionSpec | None = None


DECODE = msgspec.msgpack.Decoder(Question).decode


def question_of(task: Question | TaskIssued) -> str:
    """Return the digest of what a task asks."""
    execution = task.execution
    return record_digest((task.prompt, *(() if execution is None else (execution.files, execution.setup))))


class Distinct:
    """The last questions of each domain."""

    def __init__(self, window: int) -> None:
        """Remember so many of each."""
        self._window = window
        self._asked: dict[str, OrderedDict[str, None]] = {}

    def draw(self, make: Callable[[int], TaskIssued]) -> TaskIssued:
        """Return the first task of `make(0)`, `make(1)`, ... that was not asked lately, and remember it."""
        first = task = make(0)
        for number in range(1, MOST_DRAWS):
            if question_of(task) not in self._asked.get(task.domain, ()):
                break
            task = make(number)
        else:
            task = first
        self.note(task.domain, question_of(task))
        return task

    def note(self, domain: str, question: str) -> None:
        """Remember a question as the newest."""
        asked = self._asked.setdefault(domain, OrderedDict())
        asked[question] = None
        asked.move_to_end(question)
        if len(asked) > self._window:
            asked.popitem(last=False)

    def recall(self, raws: Iterable[RawRecord], run_id: str, blobs: BlobStore) -> None:
        """Remember what stands on the log, in the order of places."""
        newest: dict[str, list[tuple[int, str]]] = {}
        for raw in raws:
            try:
                task = DECODE(value_of(raw, blobs) or b"")
            except (DecodeError, msgspec.MsgspecError):
                continue
            if (task.run_id, task.split) != (run_id, "train") or task.task_id.encode() != raw.key:
                continue
            kept = newest.setdefault(task.domain, [])
            if len(kept) < self._window:
                heapq.heappush(kept, (task.index, question_of(task)))
            elif task.index > kept[0][0]:
                heapq.heapreplace(kept, (task.index, question_of(task)))
        for domain, kept in newest.items():
            for _, question in sorted(kept):
                self.note(domain, question)
