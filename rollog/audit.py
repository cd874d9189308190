"""The verb `audit`: the whole chain of one task, rollout, reward, step or policy version, as a tree or as JSON."""

from typing import Any, Literal, get_args

from consumers.lineage import Lineage, Tree
from consumers.naming import find_policy, find_reward, find_rollout, find_step, find_task
from rollog.history import history
from rollog.options import Invocation, print_json
from rollog.upstream import follow, origin_of
from schemas.errors import ConfigError

Kind = Literal["step", "policy", "rollout", "task", "reward"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def audit_one(called: Invocation, kind: str, name: str, *, as_json: bool, rebuild: bool) -> None:
    """Print the chain of what `name` is the id of. Raises ConfigError, LogError."""
    if kind not in KINDS:
        raise ConfigError(f"audit {kind!r}: wanted one of {', '.join(KINDS)}")
    with history(called, rebuild=rebuild) as past:
        lineage = Lineage(past.index, past.open_reader, past.state.bounds)
        recorded = follow(called, past, name) if kind in ("task", "rollout") else None
        found = recorded or chain_of(lineage, past.index, kind, name, run=called.settings.run)
        if kind == "policy" and (origin := origin_of(past.open_reader, found["policy"])) is not None:
            found["upstream"] = origin
    found = {"kind": kind, "name": name, **found}
    if as_json:
        print_json(found)
    else:
        from rollog.audit_tree import print_tree  # what machines do without takes long to import

        print_tree(found)


def chain_of(lineage: Lineage, index: Any, kind: Kind, name: str, *, run: str) -> Tree:
    """Return the chain. Raises LogError where nothing has that name."""
    match kind:
        case "task":
            return lineage.of_task(find_task(index, name).task)
        case "rollout":
            named = find_rollout(index, name)
            return lineage.of_task(named.task, sample=named.sample)
        case "reward":
            named = find_reward(index, name)
            return lineage.of_task(named.task, sample=named.sample, reward_place=named.place)
        case "step":
            place = find_step(index, name, run).place
            assert place is not None
            return lineage.of_step(place)
        case "policy":
            place = find_policy(index, name, run).place
            assert place is not None
            return lineage.of_policy(place)
