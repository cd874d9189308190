"""A chain of facts as a tree for people."""

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.tree import Tree as RichTree

from consumers.lineage import Tree

TEXT_CHARS = 100
MOST_ROLLOUTS = 16
"""Of a task, in the tree for people."""


def print_tree(found: Tree) -> None:
    """Print it."""
    Console().print(tree_of(found), soft_wrap=True, highlight=False)


def tree_of(found: Tree) -> RichTree:
    """Return a chain for people."""
    root = RichTree(f"{found['kind']} {escape(found['name'])}")
    for part, add in PARTS.items():
        if part in found:
            add(root, found[part])
    return root


def short(value: object) -> str:
    """Return a value on one line, cut, and safe to print."""
    text = repr(value) if isinstance(value, str) and "\n" in value else str(value)
    return escape(text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}...")


def line(name: str, fields: Tree, *names: str) -> str:
    """Return what a fact is, its fields that are set, and where it stands."""
    shown = " ".join(f"{field}={short(fields[field])}" for field in names if fields.get(field) not in (None, "", {}))
    where = fields.get("position") or fields.get("gone")
    return f"[bold]{name}[/bold] {shown}" + (f" [dim]{escape(str(where))}[/dim]" if where else "")


def add_task(root: RichTree, task: Tree) -> None:
    """Add a task."""
    names = ("task_id", "run_id", "domain", "level", "split", "prompt", "prompt_version", "policy", "policy_version")
    branch = root.add(line("task", task, *names, "missing"))
    if "verifier" in task:
        branch.add(line("verifier", task["verifier"], "kind", "expected", "partial"))
        branch.add(line("sampling", task["sampling"], "temperature", "top_p", "max_tokens"))


def add_rollouts(root: RichTree, rollouts: list[Tree]) -> None:
    """Add rollouts with all that is theirs."""
    for rollout in rollouts[:MOST_ROLLOUTS]:
        branch = root.add(line("rollout", rollout, "rollout_id"))
        for turn in rollout["turns"]:
            turned = branch.add(line("turn", turn, "turn", "policy", "versions", "num_tokens", "finish_reason", "text"))
            if turn["execution"]:
                names = ("status", "exit_code", "backend", "sandbox_digest", "stdout", "stderr", "error")
                turned.add(line("execution", turn["execution"], *names))
        if rollout["end"]:
            branch.add(line("ended", rollout["end"], "why", "num_turns", "num_tokens"))
        for reward in rollout["rewards"]:
            names = ("value", "invalid_reason", "parts", "verifier", "verifier_version", "scoring_id", "detail")
            branch.add(line("reward", reward, *names))
        branch.add(line("advantage", rollout, "advantage") if rollout["advantage"] is not None else "in no batch")
    if len(rollouts) > MOST_ROLLOUTS:
        root.add(f"... {len(rollouts)} rollouts in all")


def add_ends(root: RichTree, ends: list[Tree]) -> None:
    """Add how a task ended."""
    for end in ends:
        names = ("stage", "reason", "detail", "num_valid", "reward_mean", "reward_std", "scoring_id", "digest")
        root.add(line(end["kind"], end, *names))
    if not ends:
        root.add("open: neither batch nor decision")


def add_step(root: RichTree, step: Tree) -> None:
    """Add a step."""
    names = ("run_id", "run", "step", "policy_version_in", "policy_version_out", "loss", "grad_norm", "learning_rate")
    root.add(line("step", step, *names, "restored_from", "weights_digest_out", "kernels"))


def add_steps(root: RichTree, steps: list[Tree]) -> None:
    """Add the steps that trained on something."""
    for step in steps:
        add_step(root, step)
    if not steps:
        root.add("no step trained on it")


def add_version(label: str) -> Callable[[RichTree, Tree | None], None]:
    """Return what adds a policy version under a name."""

    def add(root: RichTree, version: Tree | None) -> None:
        if version is not None:
            root.add(line(label, version, "run", "run_id", "policy", "version", "digest", "address"))

    return add


def add_policies(root: RichTree, policies: list[Tree]) -> None:
    """Add the policy versions that drew tokens."""
    for version in policies:
        add_version("drawn by")(root, version)


def add_counted(label: str, *names: str) -> Callable[[RichTree, Tree], None]:
    """Return what adds a list that may be cut short."""

    def add(root: RichTree, found: Tree) -> None:
        turns = f", {found['num_turns']} turns" if "num_turns" in found else ""
        branch = root.add(f"[bold]{label}[/bold] {found['count']}{turns}")
        for item in found["shown"]:
            branch.add(line("", item, *names).strip() if isinstance(item, dict) else short(item))
        if found["count"] > len(found["shown"]):
            branch.add("...")

    return add


def add_descendants(root: RichTree, families: list[Tree]) -> None:
    """Add the policy versions that descend."""
    for family in families:
        shown = ", ".join(map(str, family["shown"])) + (", ..." if family["count"] > len(family["shown"]) else "")
        root.add(f"[bold]descend[/bold] {family['count']} versions of {escape(family['policy'])}: {shown}")


def add_evals(root: RichTree, evals: list[Tree]) -> None:
    """Add held-out results."""
    for result in evals:
        root.add(line("eval", result, "domain", "solve_rate", "reward_mean", "num_tasks"))


def add_upstream(root: RichTree, found: Tree) -> None:
    """Add what a fork came from; positions of tasks, rollouts and rewards are on that log."""
    root.add(line("forked from", found, "run", "namespace", "policy", "version"))


def add_gone(root: RichTree, positions: list[str]) -> None:
    """Add what is not on the log any more."""
    for where in positions:
        root.add(f"[red]no longer readable[/red] {escape(where)}")


PARTS: dict[str, Callable[[RichTree, Any], None]] = {
    "upstream": add_upstream,
    "task": add_task,
    "policy": add_version("policy"),
    "step": add_step,
    "policies": add_policies,
    "rollouts": add_rollouts,
    "ends": add_ends,
    "steps": add_steps,
    "policy_in": add_version("from"),
    "parent": add_version("parent"),
    "made_by": lambda root, step: add_step(root, step) if step else None,
    "batches": add_counted("batches", "task_id", "batch_id", "is_unchanged"),
    "drew": add_counted("drew tokens of tasks"),
    "policy_out": add_version("made"),
    "evals": add_evals,
    "descendants": add_descendants,
    "gone": add_gone,
}
