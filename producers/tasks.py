"""From a place in the run's sequence to a whole task. Pure: settings and place decide everything, in any process.

Domains take turns by weight in a low-discrepancy order, so that every stretch of the sequence has nearly its share of
each, whatever the weights; a shuffle would clump. Every content is drawn from the run's seed, the split and the index.
"""

import math
import random

import msgspec

from producers.dispatch import Choice
from producers.domains.catalogue import complete, get_domain
from producers.domains.files import file_domain
from producers.domains.interface import Domain, Item
from schemas import ids
from schemas.config import Settings
from schemas.curriculum import DomainFacts
from schemas.errors import ConfigError
from schemas.scorings import ALL_DOMAINS, Scoring, VerifierChoice
from schemas.tasks import ExecutionSpec, SamplingParams, Split, TaskIssued, VerifierSpec
from schemas.uses import InUse

GOLDEN = (math.sqrt(5) - 1) / 2
"""Multiples of it, modulo 1, spread most evenly (Weyl sequence of the golden ratio)."""


def check_domains(settings: Settings) -> None:
    """Raise ConfigError where a domain is not known or none has a weight."""
    for name in settings.tasks.domains:
        domain_of(settings, name)
    if not sum(settings.tasks.domains.values()) > 0:
        raise ConfigError(f"tasks.domains = {settings.tasks.domains}: all weights are 0; give one more than that")


def domain_of(settings: Settings, name: str) -> Domain:
    """Return the domain of that name: a file that the settings name, else one of the catalogue. Raises ConfigError."""
    file = settings.tasks.files.get(name)
    if file is not None and name in complete():
        raise ConfigError(f"tasks.files.{name}: the catalogue has a domain of that name; choose another")
    return get_domain(name) if file is None else file_domain(name, file)


def facts_of(settings: Settings) -> dict[str, DomainFacts]:
    """Return what the catalogue knows of each domain that the settings name. Raises ConfigError."""
    found = {name: domain_of(settings, name) for name in settings.tasks.domains}
    return {
        name: DomainFacts(family=one.family, levels=one.levels, max_tokens=one.max_tokens)
        for name, one in found.items()
    }


def domain_at(settings: Settings, index: int) -> str:
    """Return the domain of the training task at `index`."""
    start = ids.derive_seed(settings.seed, "domains") / 2**63
    place = (start + index * GOLDEN) % 1 * sum(settings.tasks.domains.values())
    weighted = [(name, weight) for name, weight in sorted(settings.tasks.domains.items()) if weight > 0]
    for name, weight in weighted:
        place -= weight
        if place < 0:
            return name
    return weighted[-1][0]


def train_task(
    settings: Settings, index: int, in_use: InUse | None = None, choice: Choice | None = None, *, draw: int = 0
) -> TaskIssued:
    """Return the training task at `index`, from 0, under the scoring that is in use and as a mix chose it.

    Without a choice the settings say domain and level. Another `draw` is another question. Raises ConfigError.
    """
    chosen = settings if choice is None else settings_for(settings, choice)
    task = make_task(
        chosen,
        task_id=train_task_id(settings, index),
        domain=domain_at(settings, index) if choice is None else choice.domain,
        split="train",
        index=index,
        num_samples=chosen.tasks.num_samples,
        sampling=chosen.sampling,
        policy_version=None,
        draw=draw,
    )
    if choice is not None:
        task = msgspec.structs.replace(task, mix_version=choice.mix_version)
    scoring = None if in_use is None else in_use.scoring_for(task.domain)
    return task if scoring is None else under(task, scoring)


def settings_for(settings: Settings, choice: Choice) -> Settings:
    """Return the settings with the level and the sampling that a mix chose."""
    num_samples = choice.num_samples or settings.tasks.num_samples
    tasks = msgspec.structs.replace(settings.tasks, level=choice.level, num_samples=num_samples)
    return msgspec.structs.replace(settings, tasks=tasks, sampling=choice.sampling or settings.sampling)


def under(task: TaskIssued, scoring: Scoring) -> TaskIssued:
    """Return the task as it is issued to train on a scoring's rewards."""
    return with_verifier(msgspec.structs.replace(task, scoring_id=scoring.scoring_id), scoring.spec_for(task))


def with_verifier(task: TaskIssued, verifier: VerifierSpec) -> TaskIssued:
    """Return the task as it is issued with another verifier; it keeps its own, for whoever scores history by that."""
    own = task.own_spec
    return msgspec.structs.replace(task, verifier=verifier, own_verifier=None if verifier == own else own)


def example_task(settings: Settings, domain: str) -> TaskIssued:
    """Return a training task of the domain that is never issued: what those of the run are like."""
    return make_task(
        settings,
        task_id="example",
        domain=domain,
        split="train",
        index=0,
        num_samples=settings.tasks.num_samples,
        sampling=settings.sampling,
        policy_version=None,
    )


def train_task_id(settings: Settings, index: int) -> str:
    """Return the id of the training task at `index`."""
    return ids.task_id(settings.run, "train", index)


def held_out_tasks(settings: Settings, policy_version: int) -> list[TaskIssued]:
    """Return the tasks that evaluate a version: `evaluation.num_tasks` of each domain, one greedy sample each.

    Every version is asked the same questions; only the ids differ.
    """
    num_tasks = settings.evaluation.num_tasks
    generation = f"{settings.policy.name}/{policy_version}"
    return [
        make_task(
            settings,
            task_id=ids.task_id(settings.run, "held_out", index, generation),
            domain=domain,
            split="held_out",
            index=index,
            num_samples=1,
            sampling=SamplingParams(temperature=0.0, max_tokens=settings.sampling.max_tokens),
            policy_version=policy_version,
        )
        for position, domain in enumerate(sorted(settings.tasks.domains))
        for index in range(position * num_tasks, (position + 1) * num_tasks)
    ]


def make_task(
    settings: Settings,
    *,
    task_id: str,
    domain: str,
    split: Split,
    index: int,
    num_samples: int,
    sampling: SamplingParams,
    policy_version: int | None,
    draw: int = 0,
) -> TaskIssued:
    """Return a task of a domain with the item that seed, split, domain and index draw."""
    found = domain_of(settings, domain)
    item = draw_item(settings, domain=domain, split=split, index=index, draw=draw)
    if found.max_tokens > sampling.max_tokens:
        sampling = msgspec.structs.replace(sampling, max_tokens=found.max_tokens)
    task = TaskIssued(
        task_id=task_id,
        run_id=settings.run,
        index=index,
        domain=domain,
        level=settings.tasks.level,
        split=split,
        prompt=item.prompt,
        verifier=item.verifier,
        execution=within(item.execution, settings.tasks.wall_s),
        max_turns=item.max_turns,
        num_samples=num_samples,
        sampling=sampling,
        seed=ids.derive_seed(settings.seed, split, index, "sampling"),
        policy=settings.policy.name,
        policy_version=policy_version,
        deadline_s=settings.tasks.deadline_s,
        family=found.family,
        gold=item.gold,
        draw=draw,
    )
    return with_verifier(task, verifier_for(settings, domain, split, item.verifier))


def within(execution: ExecutionSpec | None, wall_s: float) -> ExecutionSpec | None:
    """Return the execution with at most so many seconds for one run."""
    if execution is None or execution.limits.wall_s <= wall_s:
        return execution
    return msgspec.structs.replace(execution, limits=msgspec.structs.replace(execution.limits, wall_s=wall_s))


def verifier_for(settings: Settings, domain: str, split: Split, own: VerifierSpec) -> VerifierSpec:
    """Return what a task is scored by: the domain's own, or for training what the settings put in its place."""
    chosen = settings.tasks.verifiers
    name = chosen.get(domain) or chosen.get(ALL_DOMAINS)
    if name is None or split != "train":
        return own
    choice = settings.verifier.named.get(name) or VerifierChoice(kind=name)
    return choice.spec_for(own)


def draw_item(settings: Settings, *, domain: str, split: Split, index: int, draw: int = 0) -> Item:
    """Return the problem at a place of a split."""
    again = ("draw", draw) if draw else ()
    rng = random.Random(ids.derive_seed(settings.seed, split, domain, index, *again))
    return domain_of(settings, domain).item(rng, settings.tasks.level, split == "held_out")
