"""What the rewards of one task have in common under one scoring, worked out and encoded once.

What must hold: ids and bytes are those that `reward_id` and the codec make of `reward_of`, for any finding. Rollouts of
a task that look the same to its verifier are judged once: a verifier is a function of what it reads.
"""

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from schemas.codec import ENCODER
from schemas.content import record_digest
from schemas.ids import deriver
from schemas.rewards import RewardScored
from schemas.scorings import LIVE, Scoring
from schemas.tasks import TaskIssued, VerifierSpec
from schemas.trajectory import Trajectory
from streams.rescoring.comparison import Scored
from streams.rescoring.judge import lack_of
from streams.scoring import Finding
from streams.verifiers import VERIFIERS

ONE_BYTE = 1
"""The header of a map of up to 15 fields, as every piece of a reward is one."""
HEADER = b"\xde" + len(RewardScored.__struct_fields__).to_bytes(2, "big")
"""That of the whole, which has more."""
ONLY_TEXT = frozenset({"text"})


class Place(msgspec.Struct, frozen=True, gc=False):
    """The fields of a reward that say whose it is, in their order."""

    rollout_id: str
    sample: int


class Found(msgspec.Struct, frozen=True, gc=False):
    """The fields of a reward that a finding decides, in their order."""

    value: float | None
    invalid_reason: str | None
    detail: str
    parts: dict[str, float]


class Rest(msgspec.Struct, frozen=True, gc=False):
    """The last fields of a reward, which a finding decides too."""

    abstained: tuple[str, ...]
    evidence: dict[str, str]


NO_REST = Rest((), {})


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """A finding as it is compared, and as it is written."""

    scored: Scored
    encoded: bytes
    rest: bytes


class RewardForm:
    """A task under a scoring; `lack` says why its rollouts cannot be judged, None where they can."""

    __slots__ = ("_head", "_judgements", "_middle", "_reads_text", "_tail", "event_id", "lack", "spec")

    def __init__(self, task: TaskIssued, scoring: Scoring) -> None:
        """Work it out."""
        self.spec = spec = scoring.spec_for(task)
        self.lack = lack_of(task, spec)
        verifier = VERIFIERS.get(spec.kind)
        version, digest = 0 if verifier is None else verifier.version, record_digest(spec)
        self.event_id: Callable[[str], str] = deriver(
            "reward_scored", 0, f"{spec.kind}@{version}/{digest}/{scoring.scoring_id}"
        )
        """From a rollout's id."""
        self._reads_text = verifier is not None and verifier.reads == ONLY_TEXT
        self._judgements: dict[Hashable, Judgement] = {}
        self._head = HEADER + encoded({"task_id": task.task_id})
        self._middle = encoded({"domain": task.domain})
        by = {"verifier": spec.kind, "verifier_version": version, "config_digest": digest}
        is_own = scoring.scoring_id == task.scoring_id != LIVE
        self._tail = encoded({**by, "scoring_id": scoring.scoring_id, "attempts": 1, "score_s": 0.0, "own": is_own})

    def judgement(self, trajectory: Trajectory, find: Callable[[VerifierSpec, Trajectory], Finding]) -> Judgement:
        """Return what is found of a whole trajectory; `find` is asked once for each that looks different."""
        if not self._reads_text or trajectory.executions:
            return judgement_of(find(self.spec, trajectory))
        texts = [turn.record.text for turn in trajectory.turns.values()]
        sight = (trajectory.ended[None].record.why, *texts, *trajectory.turns)
        judgement = self._judgements.get(sight)
        if judgement is None:
            judgement = judgement_of(find(self.spec, trajectory))
            if judgement.scored.reason is None:  # else it may have been bad luck
                self._judgements[sight] = judgement
        return judgement

    def value(self, rollout_id: str, sample: int, judgement: Judgement) -> bytes:
        """Return the encoded reward of a sample."""
        place = ENCODER.encode(Place(rollout_id, sample))
        return b"".join((self._head, place[ONE_BYTE:], self._middle, judgement.encoded, self._tail, judgement.rest))


def judgement_of(finding: Finding) -> Judgement:
    """Return a finding in the two shapes in which it is needed."""
    score = finding.score
    if score is None:
        found, rest = Found(None, finding.invalid_reason, finding.detail, {}), NO_REST
    else:
        found, rest = Found(score.value, None, score.detail, score.parts), Rest(score.abstained, score.evidence)
    scored = Scored(found.value, found.invalid_reason, found.detail)
    return Judgement(scored, ENCODER.encode(found)[ONE_BYTE:], ENCODER.encode(rest)[ONE_BYTE:])


def encoded(fields: dict[str, Any]) -> bytes:
    """Return fields as they stand within a map."""
    return ENCODER.encode(fields)[ONE_BYTE:]
