"""Records with only the fields that the fold takes, decoded without building the rest.

What cannot be decoded is passed over here, as by everybody: the stages that work on it put it aside.
"""

from typing import Any

import msgspec

from consumers.raw import RawRecord, to_event, value_of
from producers.blobs import BlobStore
from schemas.codec import TYPES
from schemas.commands import CommandGiven
from schemas.deadletters import DeadLetter
from schemas.decisions import Decision
from schemas.errors import DecodeError
from schemas.evals import EvalScored
from schemas.executions import ExecutionFinished
from schemas.rewards import RewardScored
from schemas.rollouts import RolloutEnded
from schemas.tasks import TaskIssued
from schemas.topics import get_topic

FOLDED = ("commands", "tasks", "executions", "rewards", "decisions", "evals", "deadletters")
"""In the order of folding: causes before what they lead to."""
ADAPTED = "rollouts"
"""Read too where sampling adapts; folded after `tasks`."""
ORDER = {topic: place for place, topic in enumerate((*FOLDED[:2], ADAPTED, *FOLDED[2:]))}


class Task(msgspec.Struct, frozen=True, gc=False):
    """A `TaskIssued` without its content."""

    task_id: str
    run_id: str
    index: int
    domain: str
    level: int = 0
    split: str = "train"
    num_samples: int = 8
    scoring_id: str = "live"
    family: str = ""
    mix_version: int = 0


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A `RolloutEnded`."""

    task_id: str
    sample: int
    why: str
    num_tokens: int


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What a run took."""

    wall_ms: float = 0.0


class Execution(msgspec.Struct, frozen=True, gc=False):
    """An `ExecutionFinished` without what was printed."""

    task_id: str
    rollout_id: str
    turn: int
    outcome: Outcome
    copied_from: str = ""
    cases: tuple[Outcome, ...] = ()

    @property
    def cost_s(self) -> float:
        """Return what it took; nothing where another sample's run is its own."""
        if self.copied_from:
            return 0.0
        return sum(case.wall_ms for case in self.cases or (self.outcome,)) / 1000


class Reward(msgspec.Struct, frozen=True, gc=False):
    """A `RewardScored` without what it rests on."""

    task_id: str
    sample: int
    value: float | None
    invalid_reason: str | None = None
    scoring_id: str = "live"
    score_s: float = 0.0


class End(msgspec.Struct, frozen=True, gc=False):
    """A `Decision`."""

    task_id: str
    stage: str
    reason: str


class Command(msgspec.Struct, frozen=True):
    """A `CommandGiven` and its event's id."""

    event_id: str
    record: CommandGiven


LEAN: dict[type[Any], type[Any]] = {
    TaskIssued: Task,
    RolloutEnded: Ended,
    ExecutionFinished: Execution,
    RewardScored: Reward,
    Decision: End,
    EvalScored: EvalScored,
    DeadLetter: DeadLetter,
    CommandGiven: CommandGiven,
}
DECODERS = {TYPES[record].encode(): msgspec.msgpack.Decoder(lean).decode for record, lean in LEAN.items()}
NOT_FOLDED = {kind.encode() for record, kind in TYPES.items() if record not in LEAN}


def lean_record(raw: RawRecord, blobs: BlobStore) -> Any:
    """Return what the fold takes of a record; None where that is nothing."""
    headers = dict(raw.headers)
    kind = headers.get("ce_type")
    if kind in NOT_FOLDED or raw.key is None:
        return None
    try:
        decode = DECODERS.get(kind or b"")
        if decode is None:
            whole = to_event(raw, blobs).record
            lean = LEAN.get(type(whole))
            return None if lean is None else msgspec.convert(whole, lean, from_attributes=True)
        record = decode(value_of(raw, blobs) or b"")
    except (DecodeError, msgspec.MsgspecError):
        return None
    if get_topic(raw.position.topic).by_task and record.task_id.encode() != raw.key:
        return None
    if isinstance(record, CommandGiven):
        return Command(event_id=(headers.get("ce_id") or b"").decode(errors="replace"), record=record)
    return record
