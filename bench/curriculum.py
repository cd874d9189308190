"""The balance of domains in small: a hundred made-up domains, one budget, the real fold and the real dispatch.

No language model: a domain has a skill, and a group of rewards at a level whose difficulty is b raises it by its mean
absolute advantage; rewards are right with probability sigmoid(skill - b). Half the domains begin where the level that
counts is out of reach. Groups cost 1, 4 or 30, and each way of choosing spends the same. What counts is the solve rate
at the last level: its mean over domains, and over the worst tenth of them.
"""

import json
import math
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from producers.dispatch import Dispatch
from schemas.curriculum import CurriculumSettings
from schemas.tasks import SamplingParams
from streams.curriculum.domain import GroupSeen
from streams.curriculum.fold import MixFold, Rules

NUM_DOMAINS, NUM_LEVELS, NUM_SAMPLES = 100, 9, 8
NUM_GROUPS = 8_000
"""That the budget pays for at the mean cost."""
IN_FLIGHT, EVERY = 64, 32
COSTS = ((1.0, 60), (4.0, 30), (30.0, 10))
"""And how many domains have them."""
FAMILY_SIZES = (40, 20, 10, 10, 8, 7, 5)
GAIN = 0.2
SEEDS = range(10, 13)
EVEN = {"floor": 1.0, "refund": False, "cost_exponent": 0.0}
"""Everybody has an even share."""
DUMP = {"floor": 0.0, "cap": float(NUM_DOMAINS), "refund": False, "cost_exponent": 0.0}
"""Softmax alone."""
OURS = "ours"
FIGURES = {"mean": "solve rate", "worst_tenth": "solve rate", "effective_share": "of groups"}
"""And their units. Effective is a group whose rewards differ: what trains of what was sampled."""
WAYS: dict[str, dict[str, Any]] = {
    "uniform": {"ladder": False, **EVEN},
    "dump": {"ladder": False, **DUMP},
    "uniform_ladder": {"ladder": True, **EVEN},
    "dump_ladder": {"ladder": True, **DUMP},
    OURS: {"ladder": True},
    "ours_refund": {"ladder": True, "refund": True},
    "ours_no_floor": {"ladder": True, "floor": 0.0},
    "ours_cost_0": {"ladder": True, "cost_exponent": 0.0},
    "ours_cost_half": {"ladder": True, "cost_exponent": 0.5},
    "ours_families": {"ladder": True, "families": True},
    "ours_quota": {"ladder": True, "families": True, "quotas": {"family6": 0.2}},
}
"""`ours` is what the settings say by default. With families, 40 domains share what 5 do: that is what they are for."""


class Domain(msgspec.Struct, kw_only=True):
    """A made-up domain."""

    name: str
    family: str
    cost: float
    gain: float
    skill: float

    def solves(self, level: int) -> float:
        """Return the probability of a right answer."""
        return 1 / (1 + math.exp(level - (NUM_LEVELS - 1) - self.skill))


def made_up(rng: random.Random) -> dict[str, Domain]:
    """Return the domains of one seed."""
    costs = [cost for cost, count in COSTS for _ in range(count)]
    rng.shuffle(costs)
    families = [f"family{place}" for place, size in enumerate(FAMILY_SIZES) for _ in range(size)]
    return {
        (name := f"domain{place:03d}"): Domain(
            name=name,
            family=families[place],
            cost=costs[place],
            gain=GAIN * rng.uniform(0.5, 1.5),
            skill=rng.uniform(-6, 1),
        )
        for place in range(NUM_DOMAINS)
    }


def run(seed: int, *, ladder: bool, families: bool = False, **changes: Any) -> tuple[float, ...]:
    """Return `FIGURES` of one run to the end of its budget."""
    rng = random.Random(seed)
    domains = made_up(rng)
    budget = NUM_GROUPS * sum(one.cost for one in domains.values()) / NUM_DOMAINS
    settings = CurriculumSettings(
        levels=dict.fromkeys(domains, NUM_LEVELS) if ladder else {},
        families={name: one.family for name, one in domains.items()} if families else {},
        **changes,
    )
    rules = Rules(
        run_id="bench", policy="policy", domains=dict.fromkeys(domains, 1.0), num_samples=NUM_SAMPLES,
        sampling=SamplingParams(), curriculum=settings,
    )  # fmt: skip
    fold, dispatch = MixFold(rules), Dispatch()
    mix, waiting, num_ended, num_effective = fold.revise({}), deque[tuple[Domain, int, int]](), 0, 0
    while budget > 0:
        choice = dispatch.choose(mix)
        assert choice is not None
        dispatch.note(choice.domain, mix)
        chosen = domains[choice.domain]
        budget -= chosen.cost
        waiting.append((chosen, choice.level if ladder else NUM_LEVELS - 1, choice.mix_version))
        if len(waiting) > IN_FLIGHT:
            group = rewarded(*waiting.popleft(), rng)
            fold.take_group(group)
            num_ended += 1
            num_effective += len(set(group.values)) > 1
            if num_ended % EVERY == 0:
                mix = fold.revise({})
    rates = sorted(one.solves(NUM_LEVELS - 1) for one in domains.values())
    worst = rates[: NUM_DOMAINS // 10]
    return math.fsum(rates) / len(rates), math.fsum(worst) / len(worst), num_effective / num_ended


def rewarded(domain: Domain, level: int, version: int, rng: random.Random) -> GroupSeen:
    """Return a group's rewards, and let the domain learn of them."""
    chance = domain.solves(level)
    values = tuple(float(rng.random() < chance) for _ in range(NUM_SAMPLES))
    mean = math.fsum(values) / NUM_SAMPLES
    domain.skill += domain.gain * 2 * math.sqrt(mean * (1 - mean))
    return GroupSeen(
        domain=domain.name, level=level, mix_version=version, values=values, num_samples=NUM_SAMPLES, cost_s=domain.cost
    )


def measure() -> Iterator[dict[str, Any]]:
    """Yield the figures, each with `name`, `value`, `unit`, `bar` and `holds`; the same in every run."""
    found = {}
    for way, options in WAYS.items():
        results = [run(seed, **options) for seed in SEEDS]
        found[way] = [math.fsum(column) / len(column) for column in zip(*results, strict=True)]
        for name, value in zip(FIGURES, found[way], strict=True):
            yield figure(f"curriculum_{way}_{name}", value, FIGURES[name])
    for other in ("uniform", "dump", "uniform_ladder"):
        for name, ours, theirs in zip(FIGURES, found[OURS], found[other], strict=True):
            bar = None if (other, name) == ("uniform_ladder", "effective_share") else 0.0
            yield figure(f"curriculum_ours_over_{other}_{name}", ours - theirs, FIGURES[name], bar)


def figure(name: str, value: float, unit: str, bar: float | None = None) -> dict[str, Any]:
    return {"name": name, "value": round(value, 4), "unit": unit, "bar": bar, "holds": bar is None or value > bar}


if __name__ == "__main__":
    for line in measure():
        print(json.dumps(line))
