"""What another scoring would have done to groups: advantages, and which of them train at all."""

import math
from collections.abc import Mapping

import msgspec

from streams.rescoring.tallies import NUM_EXAMPLES, UNIT

Values = Mapping[int, float | None]
"""Reward by sample; None is invalid."""


class GroupTally(msgspec.Struct, kw_only=True):
    """Training groups that have every reward of before, by what became of them."""

    num_groups: int = 0
    num_changed: int = 0
    """Groups in which an advantage, or who has one, is another."""
    num_train_before: int = 0
    num_train_after: int = 0
    num_now_train: int = 0
    """Of no variance, or with too few valid rewards, before; and with something to learn from now."""
    num_no_longer_train: int = 0
    num_rows: int = 0
    """Rollouts with an advantage both times."""
    num_sign_flips: int = 0
    """Rollouts that were reinforced and would be discouraged, or the reverse."""
    sum_change_units: int = 0
    max_change: float = 0.0
    now_train: list[str] = []
    """Task ids, the first few in their order."""
    no_longer_train: list[str] = []

    def add(self, task_id: str, before: Values, after: Values, *, min_valid: int) -> None:
        """Take one group."""
        was, is_now = advantages(before, min_valid=min_valid), advantages(after, min_valid=min_valid)
        self.num_groups += 1
        self.num_train_before += bool(was)
        self.num_train_after += bool(is_now)
        self.num_changed += was != is_now
        if bool(was) != bool(is_now):
            examples = self.now_train if is_now else self.no_longer_train
            self.num_now_train += bool(is_now)
            self.num_no_longer_train += bool(was)
            examples.append(task_id)
            shorten(examples)
        for sample in was.keys() & is_now.keys():
            change = abs(is_now[sample] - was[sample])
            self.num_rows += 1
            self.num_sign_flips += was[sample] * is_now[sample] < 0
            self.sum_change_units += round(change * UNIT)
            self.max_change = max(self.max_change, change)

    def merge(self, other: "GroupTally") -> None:
        """Take all of another's."""
        for field in self.__struct_fields__:
            if field.startswith(("num_", "sum_")):
                setattr(self, field, getattr(self, field) + getattr(other, field))
        self.max_change = max(self.max_change, other.max_change)
        self.now_train += other.now_train
        self.no_longer_train += other.no_longer_train
        shorten(self.now_train)
        shorten(self.no_longer_train)

    @property
    def mean_change(self) -> float:
        """Return the mean over `num_rows` of how far an advantage moves."""
        return self.sum_change_units / UNIT / self.num_rows if self.num_rows else 0.0


def shorten(task_ids: list[str]) -> None:
    """Keep the first few; ids are digests, so that their order is as good as chance."""
    task_ids.sort()
    del task_ids[NUM_EXAMPLES:]


def advantages(values: Values, *, min_valid: int) -> dict[int, float]:
    """Return reward minus mean by valid sample, as the assembler has it; nothing where the group would not train."""
    valid = {sample: value for sample, value in values.items() if value is not None}
    if len(valid) < min_valid or min(valid.values()) == max(valid.values()):
        return {}
    mean = math.fsum(valid.values()) / len(valid)
    return {sample: value - mean for sample, value in valid.items()}
