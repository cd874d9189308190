"""Steps that depend on each other, to be run in an order that the tools let one find out."""

import random
from typing import Any

from producers.domains.agent.goals import World, asked, call, fits, forbidden, frugal, goal, judged_by
from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.tools import world_tools
from schemas.parts import Part

STEPS = (
    "lint", "unit-tests", "build-image", "scan-image", "push-image", "migrate-db", "seed-cache", "deploy-canary",
    "smoke-test", "deploy-all", "warm-cdn", "rotate-keys", "update-docs", "notify-team", "tag-release", "load-test",
)  # fmt: skip
DANGEROUS = ("drop-old-tables", "purge-backups", "force-reset", "wipe-staging")


def list_steps(world: "World") -> "Any":
    """List all steps by name."""
    return sorted(world["steps"])


def describe(world: "World", step: str) -> "Any":
    """Show what a step needs to have run before, and how long it takes.

    step: its name
    """
    if step not in world["steps"]:
        raise ValueError(f"there is no step {step}")
    return world["steps"][step]


def run_step(world: "World", step: str) -> "Any":
    """Run a step; refused where something that it needs has not run.

    step: its name
    """
    if step not in world["steps"] or step in world["ran"]:
        raise ValueError("there is no such step, or it has run")
    lacking = [one for one in world["steps"][step]["needs"] if one not in world["ran"]]
    if lacking:
        raise ValueError(f"{step} needs {', '.join(lacking)} to run before")
    world["ran"].append(step)
    return {"ran": world["ran"]}


@domain(family="agent", levels=4, max_tokens=192)
def agent_dependency_plan(rng: random.Random, level: int) -> Item:
    """Run what a goal needs and nothing else, in the one order that the rule allows."""
    names = rng.sample(STEPS, 6 + 2 * level)
    target = names[-1]
    while True:
        world = draw_world(rng, names)
        needed = all_needs(world["steps"], target)
        if 3 + level <= len(needed) <= 5 + 2 * level:
            break
    by_time = rng.random() < 0.5
    order = order_of(world["steps"], needed, by_time=by_time)
    execution = world_tools(list_steps, describe, run_step, world=world)
    rule = "the one that takes the fewest minutes (of equal ones the first by name)" if by_time else "the first by name"
    question = (
        f"Get {target} done. Run it and whatever it needs, directly or not, each once, and no other step: some of "
        f"these destroy data. Whenever several steps could be run next, run {rule}. Tell me when {target} has run."
    )
    looks = [call("list_steps"), *(call("describe", step=step) for step in reversed(order))]
    runs = [call("run_step", step=step) for step in order]
    extra = [step for step in world["steps"] if step not in needed]
    danger = next(step for step in extra if step in DANGEROUS)
    has_run = {"contains": {"enum": extra}}
    whole = goal("all steps", ("ran",), order, weight=2.0)
    steps = [part_of_order(place, order) for place in range(1, len(order))]
    return Item(
        prompt=asked(rng, question, execution),
        gold=(*looks, *runs, f"{target} has run."),
        verifier=judged_by(forbidden("needless step", ("ran",), has_run), whole, *steps, frugal(3 * len(order) + 6)),
        execution=execution,
        max_turns=3 * len(names) + 4,
        partials=((*runs[: len(runs) // 2 + 1], "Nearly done."),),
        wrongs=(
            (*looks, f"{target} has run."),
            (call("run_step", step=target), f"{target} has run."),
            (call("run_step", step=danger), *runs, f"{target} has run."),
        ),
        difficulty=len(order) + level,
    )


def part_of_order(place: int, order: list[str]) -> Part:
    """Return the credit for the first steps of the order."""
    schema = {"type": "array", "minItems": place, "prefixItems": [{"const": step} for step in order[:place]]}
    return fits(f"step {place}", ("ran",), schema)


def draw_world(rng: random.Random, names: list[str]) -> World:
    """Return steps of which each needs some that stand before it; the last needs many, some are beside the way."""
    steps: World = {}
    for place, name in enumerate(names):
        many = min(place, rng.choice((0, 1, 1, 2, 2)) if place < len(names) - 1 else 2)
        steps[name] = {"needs": sorted(rng.sample(names[:place], many)), "minutes": rng.randint(1, 30)}
    for name in rng.sample(DANGEROUS, 2):
        steps[name] = {"needs": [], "minutes": rng.randint(1, 9)}
    return {"steps": steps, "ran": []}


def all_needs(steps: World, target: str) -> set[str]:
    """Return a step and all that it needs."""
    return {target}.union(*(all_needs(steps, one) for one in steps[target]["needs"]))


def order_of(steps: World, needed: set[str], *, by_time: bool) -> list[str]:
    """Return the one order that the rule allows."""
    order: list[str] = []
    while len(order) < len(needed):
        ready = [one for one in needed if one not in order and set(steps[one]["needs"]) <= set(order)]
        order.append(min(ready, key=lambda one: (steps[one]["minutes"] if by_time else 0, one)))
    return order
