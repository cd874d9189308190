"""The catalogue: every topic, its records, and the settings that the cluster must have for it.

Everything that needs to know a topic asks here: creation and drift check, codec, AsyncAPI document, publisher, reader.
All topics keyed by task have one partition count and one partitioner (murmur2), so that a task's events meet.
"""

from typing import Any, Literal

import msgspec

from schemas.alerts import AlertRaised
from schemas.batches import Batch
from schemas.commands import CommandGiven
from schemas.deadletters import DeadLetter
from schemas.decisions import Decision
from schemas.errors import ConfigError
from schemas.evals import EvalScored
from schemas.executions import ExecutionFinished
from schemas.feedback import FeedbackGiven
from schemas.limits import MAX_RECORD_BYTES
from schemas.mixes import MixRevised
from schemas.policies import PolicyPublished
from schemas.rewards import RewardScored
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.seals import LogSealed
from schemas.steps import StepTaken
from schemas.tasks import TaskIssued

DAY_MS = 86_400_000
FOREVER_MS = -1


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One topic of the log."""

    name: str
    """Without the namespace."""
    purpose: str
    records: tuple[type[Any], ...]
    key: str
    """What the key is."""
    written_by: str
    by_task: bool = True
    """Whether it has the common partition count; else it has one partition."""
    retention_ms: int = FOREVER_MS
    cleanup: Literal["delete", "compact"] = "delete"
    max_bytes: int = MAX_RECORD_BYTES
    derived: bool = False
    """Whether it can be rebuilt from the others."""

    def partitions(self, common: int) -> int:
        """Return the partition count where the task-keyed topics have `common`."""
        return common if self.by_task else 1

    @property
    def settings(self) -> dict[str, str]:
        """Return the topic's Kafka settings."""
        return {
            "cleanup.policy": self.cleanup,
            "retention.ms": str(self.retention_ms),
            "retention.bytes": "-1",
            "max.message.bytes": str(self.max_bytes),
            "message.timestamp.type": "CreateTime",
            "compression.type": "producer",
        }


TOPICS: dict[str, Topic] = {
    topic.name: topic
    for topic in (
        Topic(
            name="tasks",
            purpose="Problem instances, whole.",
            records=(TaskIssued,),
            key="task_id",
            written_by="issuer, evaluator",
        ),
        Topic(
            name="rollouts",
            purpose="What the policy said, by token, and how rollouts ended.",
            records=(TurnGenerated, RolloutEnded),
            key="task_id",
            written_by="generator",
        ),
        Topic(
            name="executions",
            purpose="What came of running it.",
            records=(ExecutionFinished,),
            key="task_id",
            written_by="executor",
        ),
        Topic(
            name="rewards",
            purpose="What verifiers said of rollouts.",
            records=(RewardScored,),
            key="task_id",
            written_by="verifier",
        ),
        Topic(
            name="batches",
            purpose="Scored groups, ready to train.",
            records=(Batch,),
            key="task_id",
            written_by="assembler",
            retention_ms=7 * DAY_MS,
            derived=True,
        ),
        Topic(
            name="decisions",
            purpose="What was not trained on, and why.",
            records=(Decision,),
            key="task_id",
            written_by="assembler, learner",
        ),
        Topic(
            name="steps",
            purpose="Optimizer steps, each with its manifest.",
            records=(StepTaken,),
            key="run_id",
            written_by="learner",
            by_task=False,
        ),
        Topic(
            name="policies",
            purpose="Weights that samplers may use.",
            records=(PolicyPublished,),
            key="policy",
            written_by="learner",
            by_task=False,
        ),
        Topic(
            name="evals",
            purpose="Held-out results of policy versions.",
            records=(EvalScored,),
            key="domain",
            written_by="evaluator",
            by_task=False,
        ),
        Topic(
            name="commands",
            purpose="What people and rules told the system to do.",
            records=(CommandGiven,),
            key="target",
            written_by="command line, alerts",
            by_task=False,
        ),
        Topic(
            name="alerts",
            purpose="Signs of rewarded nonsense, each with the rollouts that it points to.",
            records=(AlertRaised,),
            key="run_id",
            written_by="alerts",
            by_task=False,
        ),
        Topic(
            name="mixes",
            purpose="How much of each domain is issued, and at which level.",
            records=(MixRevised,),
            key="run_id",
            written_by="curriculum",
            by_task=False,
        ),
        Topic(
            name="feedback",
            purpose="What users of a policy said of its answers.",
            records=(FeedbackGiven,),
            key="subject",
            written_by="feedback producers",
            by_task=False,
        ),
        Topic(
            name="seals",
            purpose="What stretches of the log were, in digests, so that an edit of old history is found.",
            records=(LogSealed,),
            key="topic[partition]",
            written_by="sealer, rollog seal",
            by_task=False,
        ),
        Topic(
            name="deadletters",
            purpose="What could not be processed, byte for byte.",
            records=(DeadLetter,),
            key="the original key",
            written_by="every stage",
            by_task=False,
            retention_ms=90 * DAY_MS,
        ),
    )
}


def get_topic(name: str) -> Topic:
    """Return the topic of that name. Raises ConfigError that lists the known ones."""
    if name not in TOPICS:
        raise ConfigError(f"topic {name!r} is not in the catalogue; known are: {', '.join(TOPICS)}")
    return TOPICS[name]
