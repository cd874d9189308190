"""Made-up facts for tests of the curriculum: what the fold takes of some groups."""

import random
from typing import Any

from schemas.curriculum import CurriculumSettings
from schemas.evals import EvalScored
from schemas.ids import rollout_id, task_id
from schemas.tasks import SamplingParams
from streams.curriculum import lean
from streams.curriculum.fold import MixFold, Rules

RUN, NUM_SAMPLES = "golden", 4
DOMAINS = ("algebra", "logs", "shop")


def rules(**changes: Any) -> Rules:
    levels = dict.fromkeys(DOMAINS, 5)
    return Rules(
        run_id=RUN,
        policy="policy",
        domains=dict.fromkeys(DOMAINS, 1.0),
        num_samples=NUM_SAMPLES,
        sampling=SamplingParams(),
        curriculum=CurriculumSettings(**({"levels": levels} | changes)),
    )


def task(index: int, domain: str = "algebra", **changes: Any) -> lean.Task:
    fields: dict[str, Any] = {"task_id": task_id(RUN, "train", index), "run_id": RUN, "index": index, "domain": domain}
    return lean.Task(**(fields | {"num_samples": NUM_SAMPLES} | changes))


def reward(index: int, sample: int, value: float | None, **changes: Any) -> lean.Reward:
    why = "verifier_timeout" if value is None else None
    fields: dict[str, Any] = {"task_id": task_id(RUN, "train", index), "sample": sample, "value": value}
    return lean.Reward(**(fields | {"invalid_reason": why} | changes))


def run_of(index: int, sample: int, wall_ms: float, **changes: Any) -> lean.Execution:
    name = task_id(RUN, "train", index)
    return lean.Execution(name, rollout_id(name, sample), 0, lean.Outcome(wall_ms), **changes)


def group(index: int, values: tuple[float | None, ...], domain: str = "algebra", **changes: Any) -> list[Any]:
    """Return a group's task and rewards."""
    rewards = [reward(index, sample, value) for sample, value in enumerate(values)]
    return [task(index, domain, num_samples=len(values), **changes), *rewards]


def result(version: int, rate: float, domain: str = "algebra", **changes: Any) -> EvalScored:
    fields: dict[str, Any] = {"run_id": RUN, "policy": "policy", "version": version, "domain": domain}
    fields |= {"solve_rate": rate, "reward_mean": rate, "num_tasks": 400, "num_invalid": 0}
    return EvalScored(**(fields | changes))


def fold_of(*records: Any, **changes: Any) -> MixFold:
    fold = MixFold(rules(**changes))
    for record in records:
        fold.take(record)
    return fold


def history(num_groups: int, seed: int = 0) -> list[Any]:
    """Return groups of all domains, some without variance, some with invalid rewards."""
    rng = random.Random(seed)
    found: list[Any] = []
    for index in range(num_groups):
        chance = rng.choice([0.0, 0.3, 0.7, 1.0])
        values = tuple(None if rng.random() < 0.02 else float(rng.random() < chance) for _ in range(NUM_SAMPLES))
        found += group(index, values, rng.choice(DOMAINS))
    return found
