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
"""The header of a map of up to 15 fields, as both halves of a reward are one."""
HEADER = b"\xde" + len(RewardScored.__struct_fields__).to_bytes(2, "big")
"""That of the whole, which has more."""
ONLY_TEXT = frozenset({"text"})


class Whose(msgspec.Struct, frozen=True, gc=False):
    """The fields of a reward that say whose it is, in their order."""

    task_id: str
    rollout_id: str
    sample: int


class Found(msgspec.Struct, frozen=True, gc=False):
    """All fields after them, which rollouts of a task that are judged alike have in common."""

    domain: str
    value: float | None
    invalid_reason: str | None
    detail: str
    parts: dict[str, float]
    verifier: str
    verifier_version: int
    config_digest: str
    scoring_id: str
    attempts: int
    score_s: float
    own: bool
    abstained: tuple[str, ...]
    evidence: dict[str, str]


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """A finding as it is compared, and what it is written as, from `domain` on."""

    scored: Scored
    encoded: bytes


class RewardForm:
    """A task under a scoring; `lack` says why its rollouts cannot be judged, None where they can."""

    __slots__ = ("_by", "_domain", "_judgements", "_reads_text", "event_id", "lack", "spec", "task_id")

    def __init__(self, task: TaskIssued, scoring: Scoring) -> None:
        """Work it out."""
        self.task_id, self._domain, scoring_id = task.task_id, task.domain, scoring.scoring_id
        self.spec = spec = scoring.spec_for(task)
        self.lack = lack_of(task, spec)
        verifier = VERIFIERS.get(spec.kind)
        version, digest = 0 if verifier is None else verifier.version, record_digest(spec)
        self.event_id: Callable[[str], str] = deriver(
            "reward_scored", 0, f"{spec.kind}@{version}/{digest}/{scoring_id}"
        )
        """From a rollout's id."""
        self._reads_text = verifier is not None and verifier.reads == ONLY_TEXT
        self._judgements: dict[Hashable, Judgement] = {}
        self._by = (spec.kind, version, digest, scoring_id, 1, 0.0, scoring_id == task.scoring_id != LIVE)
        """The fields that no finding decides, from `verifier` on; what history is scored with takes one attempt."""

    def judgement(self, trajectory: Trajectory, find: Callable[[VerifierSpec, Trajectory], Finding]) -> Judgement:
        """Return what is found of a whole trajectory; `find` is asked once for each that looks different."""
        if not self._reads_text or trajectory.executions:
            return self._judgement_of(find(self.spec, trajectory))
        looks: list[Any] = [trajectory.ended[None].record.why]
        for turn, event in trajectory.turns.items():
            looks += (turn, event.record.text)
        sight = tuple(looks)
        judgement = self._judgements.get(sight)
        if judgement is None:
            judgement = self._judgement_of(find(self.spec, trajectory))
            if judgement.scored.reason is None:  # else it may have been bad luck
                self._judgements[sight] = judgement
        return judgement

    def value(self, rollout_id: str, sample: int, judgement: Judgement) -> bytes:
        """Return the encoded reward of a sample."""
        return HEADER + ENCODER.encode(Whose(self.task_id, rollout_id, sample))[ONE_BYTE:] + judgement.encoded

    def _judgement_of(self, finding: Finding) -> Judgement:
        score, domain, by = finding.score, self._domain, self._by
        if score is None:
            found = Found(domain, None, finding.invalid_reason, finding.detail, {}, *by, (), {})
        else:
            found = Found(domain, score.value, None, score.detail, score.parts, *by, score.abstained, score.evidence)
        scored = Scored(found.value, found.invalid_reason, found.detail)
        return Judgement(scored, ENCODER.encode(found)[ONE_BYTE:])
