"""A group between its issue and its last reward, and which places of the run's sequence were seen."""

from schemas.ids import rollout_id
from streams.curriculum import lean
from streams.curriculum.domain import GroupSeen

VERIFIERS = ("verifier_timeout", "verifier_error")
"""Reasons of an invalid reward that are the verifier's own; others say nothing of the domain."""
CUT_OFF = ("length", "context_full")


class Places:
    """A set of whole numbers from 0 that has few holes, in little memory."""

    def __init__(self) -> None:
        self.through = 0
        """All below are in it."""
        self._beyond: set[int] = set()

    def add(self, place: int) -> bool:
        """Add one and return whether it is new."""
        if place < self.through or place in self._beyond:
            return False
        self._beyond.add(place)
        while self.through in self._beyond:
            self._beyond.discard(self.through)
            self.through += 1
        return True


class OpenGroup:
    """A group that has not ended."""

    def __init__(self, task: lean.Task) -> None:
        self.task = task
        self.rewards: dict[int, lean.Reward] = {}
        """By sample; the first on the log counts."""
        self._cut_off: set[int] = set()
        self._runs: dict[tuple[str, int], float] = {}

    @property
    def is_whole(self) -> bool:
        """Return whether every sample has its reward."""
        return len(self.rewards) == self.task.num_samples

    def take(self, record: lean.Execution | lean.Ended) -> None:
        """Take what came of a run, or how a rollout ended."""
        if isinstance(record, lean.Execution):
            self._runs.setdefault((record.rollout_id, record.turn), record.cost_s)
        elif record.why in CUT_OFF:
            self._cut_off.add(record.sample)

    def take_reward(self, reward: lean.Reward) -> bool:
        """Take a reward; returns whether it is the first of its sample by the task's own scoring."""
        is_own = reward.scoring_id == self.task.scoring_id and 0 <= reward.sample < self.task.num_samples
        is_sound = reward.value is None or 0 <= reward.value <= 1
        if not is_own or not is_sound or reward.sample in self.rewards:
            return False
        self.rewards[reward.sample] = reward
        return True

    @property
    def seen(self) -> GroupSeen:
        """Return what there is of it, by sample."""
        task, rewards = self.task, [reward for _, reward in sorted(self.rewards.items())]
        samples = {rollout_id(task.task_id, sample) for sample in range(task.num_samples)}
        runs = [seconds for (name, _), seconds in sorted(self._runs.items()) if name in samples]
        return GroupSeen(
            domain=task.domain,
            level=task.level,
            mix_version=task.mix_version,
            values=tuple(reward.value for reward in rewards if reward.value is not None),
            num_samples=task.num_samples,
            num_abstained=sum(reward.invalid_reason in VERIFIERS for reward in rewards),
            num_truncated=len(self._cut_off),
            cost_s=sum(runs) + sum(reward.score_s for reward in rewards),
        )
