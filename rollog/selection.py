"""Which rollouts of history are asked about, as options say it; checks one rollout at a time and goes to workers."""

import time

from consumers.history.rollouts import Finished
from rollog.tap import parse_since
from schemas.errors import ConfigError
from schemas.selections import PolicyRange, Selection, parse_conditions, parse_policy

__all__ = ["Options", "PolicyRange", "parse_conditions", "parse_moment", "parse_offsets", "parse_policy"]


class Options(Selection, frozen=True, kw_only=True):
    """A selection of rollouts of history."""

    only_invalid: bool = False

    @property
    def needs_reward(self) -> bool:
        """Return whether a rollout waits for the reward that it had."""
        return self.only_invalid or bool(self.conditions)

    @property
    def wants_all(self) -> bool:
        """Return whether every rollout of the tasks that count does."""
        return self.policy is None and not self.needs_reward and not self.rollouts

    def wants(self, rollout: Finished) -> bool:
        """Return whether this rollout counts."""
        if self.wants_all:
            return True
        reward = rollout.group.rewards.get(rollout.sample)
        if self.only_invalid and (reward is None or reward.value is not None):
            return False
        task = rollout.group.task
        assert task is not None
        turns = {index: turn.record for index, turn in rollout.trajectory.turns.items()}
        return self.holds(
            f"{task.task_id}/{rollout.sample}", task=task, turns=turns, end=rollout.trajectory.end, reward=reward
        )


def parse_offsets(texts: list[str], num_partitions: int) -> dict[int, int]:
    """Return where to start in `tasks`: OFFSET for every partition, PARTITION:OFFSET for one. Raises ConfigError."""
    found: dict[int, int] = {}
    for text in texts:
        partition, colon, offset = text.rpartition(":")
        if not offset.isdecimal() or (colon and not partition.isdecimal()):
            raise ConfigError(f"--from-offset {text!r}: wanted OFFSET or PARTITION:OFFSET, of the topic tasks")
        found |= dict.fromkeys([int(partition)] if colon else range(num_partitions), int(offset))
    return found


def parse_moment(option: str, text: str) -> float | None:
    """Return seconds since the epoch; None for `beginning` and `now`, the log's two ends. Raises ConfigError."""
    if (option, text) in (("--since", "beginning"), ("--until", "now")):
        return None
    try:
        moment = parse_since(text)
    except ConfigError as error:
        raise ConfigError(str(error).replace("--since", option)) from error
    if isinstance(moment, str):
        return 0.0 if moment == "beginning" else time.time()
    return moment
