"""A comparison of two scorings over any number of groups."""

import msgspec

from consumers.history.rollouts import OpenGroup
from streams.rescoring.groups import GroupTally
from streams.rescoring.tallies import DomainTally


class Scored(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a new reward until its group is closed."""

    value: float | None
    reason: str | None
    detail: str = ""


class Comparison(msgspec.Struct, kw_only=True):
    """Sums by domain, and over groups."""

    domains: dict[str, DomainTally] = {}
    groups: GroupTally = msgspec.field(default_factory=GroupTally)

    def add_group(self, group: OpenGroup, *, min_valid: int) -> None:
        """Take a closed group: the rewards it had, and what was found."""
        task = group.task
        assert task is not None
        found: dict[int, Scored] = group.found
        if not found:
            return
        tally = self.domain(task.domain)
        for sample, scored in found.items():
            reward = group.rewards.get(sample)
            if reward is None:
                tally.add_new(scored.value, scored.reason)
                continue
            tally.before.add(reward.value, reward.invalid_reason)
            tally.after.add(scored.value, scored.reason)
            tally.add_pair(f"{task.task_id}/{sample}", reward.value, scored.value, scored.detail)
        if task.split == "train" and len(group.rewards) >= task.num_samples:
            before = {sample: reward.value for sample, reward in group.rewards.items()}
            after = before | {sample: scored.value for sample, scored in found.items()}
            self.groups.add(task.task_id, before, after, min_valid=min_valid)

    def domain(self, name: str) -> DomainTally:
        """Return the sums of a domain."""
        if name not in self.domains:
            self.domains[name] = DomainTally()
        return self.domains[name]

    def merge(self, other: "Comparison") -> None:
        """Take all of another's."""
        for name, tally in other.domains.items():
            self.domain(name).merge(tally)
        self.groups.merge(other.groups)
