"""A mix: how much of each domain is issued, at which level, and why; each revision is an event.

What must hold: a revision is a function of its run's earlier revisions and of the log up to `ends`. Whoever issues goes
by weights and credits in whole millionths, so that sums come out the same in any order.
"""

from typing import Literal

import msgspec

from schemas.ids import derive_id
from schemas.tasks import SamplingParams

Status = Literal["active", "paused", "frozen", "quarantined", "protected"]
MILLION = 1_000_000
TOPIC = "mixes"


class DomainMix(msgspec.Struct, frozen=True, kw_only=True):
    """One domain in a mix."""

    family: str
    weight: int
    """Share of the groups, in millionths; those of a mix add up to a million."""
    level: float = 0.0
    """From 0 to its number of levels less one; between two whole ones, both are issued in that proportion."""
    status: Status = "active"
    """`paused` by command; `frozen`: solved at its last level; `quarantined`: its rewards are not to be believed;
    `protected`: held-out results fell."""
    ended: int = 0
    """Groups that ended so far."""
    refunded: int = 0
    """Of those, how many were not charged, since all their rewards were alike."""
    solve_rate: float = 0.0
    """Mean reward, of late."""
    advantage: float = 0.0
    """Mean absolute normalised advantage over the window: what there is to learn."""
    zero_variance: float = 0.0
    """Share of the window's groups whose rewards were all alike."""
    abstained: float = 0.0
    """Share of the window's rollouts that the verifier could give no value."""
    cost_s: float = 0.0
    """Seconds that sandbox and verifier take for a group, of late."""
    score: float = 0.0
    """What its weight is made of, beside family, floor, cap and cost."""
    num_samples: int = 0
    """Rollouts of a group; 0 as the settings say."""
    sampling: SamplingParams | None = None
    """None as the settings say."""
    truncated: float = 0.0
    """Share of the window's rollouts that were cut off at their number of tokens, where that is looked at."""


class MixRevised(msgspec.Struct, frozen=True, kw_only=True):
    """What is issued from here on."""

    run_id: str
    version: int
    """From 1; tasks name it."""
    domains: dict[str, DomainMix]
    cause: str
    """`start`, `groups`, `command`, `status` or `settings`: what it was revised for."""
    ends: dict[str, int]
    """By `topic[partition]`: the offset up to which events were folded into it."""
    config: str = ""
    """Settings that the fold went by since the revision before, as JSON; empty where they were the same."""
    held: bool = False
    """Whether new policy versions are for training alone, since held-out results fell."""


def mix_id(run_id: str, version: int) -> str:
    """Return the event id of a revision."""
    return derive_id(run_id, "mix_revised", version)
