"""What another scoring would have done to groups: advantages, and which of them train at all."""

import math
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from streams.rescoring.tallies import NUM_EXAMPLES, UNIT

Values = Mapping[int, float | None]
"""Reward by sample; None is invalid."""
Items = tuple[tuple[int, float | None], ...]


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
        found = effect_of(tuple(before.items()), tuple(after.items()), min_valid)
        self.count(found, 1)
        self.show(task_id, found)

    def count(self, found: "Effect", num: int) -> None:
        """Take so many groups that the other rewards do this to."""
        self.num_groups += num
        self.num_train_before += num * found.trained
        self.num_train_after += num * found.trains
        self.num_changed += num * found.is_other
        self.num_now_train += num * (found.trains and not found.trained)
        self.num_no_longer_train += num * (found.trained and not found.trains)
        self.num_rows += num * found.num_rows
        self.num_sign_flips += num * found.num_sign_flips
        self.sum_change_units += num * found.sum_change_units
        self.max_change = max(self.max_change, found.max_change)

    def show(self, task_id: str, found: "Effect") -> None:
        """Consider a group as an example of those that begin or cease to train."""
        if found.trained != found.trains:
            examples = self.now_train if found.trains else self.no_longer_train
            examples.append(task_id)
            shorten(examples)

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


class Effect(msgspec.Struct, frozen=True, gc=False):
    """What other rewards do to one group; see `GroupTally`."""

    trained: bool
    trains: bool
    is_other: bool
    num_rows: int
    num_sign_flips: int
    sum_change_units: int
    max_change: float


@lru_cache(maxsize=4096)
def effect_of(before: Items, after: Items, min_valid: int) -> Effect:
    """Return it; many groups have the same rewards."""
    was = advantages(dict(before), min_valid=min_valid)
    is_now = advantages(dict(after), min_valid=min_valid)
    both = was.keys() & is_now.keys()
    changes = [abs(is_now[sample] - was[sample]) for sample in both]
    return Effect(
        trained=bool(was),
        trains=bool(is_now),
        is_other=was != is_now,
        num_rows=len(both),
        num_sign_flips=sum(was[sample] * is_now[sample] < 0 for sample in both),
        sum_change_units=sum(round(change * UNIT) for change in changes),
        max_change=max(changes, default=0.0),
    )


def shorten(task_ids: list[str]) -> None:
    """Keep the first few; ids are digests, so that their order is as good as chance."""
    task_ids.sort()
    del task_ids[NUM_EXAMPLES:]


def advantages(values: Values, *, min_valid: int) -> dict[int, float]:
    """Return reward minus mean by valid sample, as the assembler has it; nothing where the group would not train."""
    valid = {sample: value for sample, value in values.items() if value is not None}
    if len(valid) < min_valid or len(set(valid.values())) <= 1:
        return {}
    mean = math.fsum(valid.values()) / len(valid)
    return {sample: value - mean for sample, value in valid.items()}
