"""What a pass found, as a tree for machines and as tables for people."""

from collections.abc import Callable
from typing import Any, TextIO

import msgspec
from rich.console import Console
from rich.table import Table

from rollog.console import wide_console
from rollog.progress import progress
from streams.rescoring.comparison import Comparison
from streams.rescoring.groups import GroupTally
from streams.rescoring.passes import Outcome, Plan
from streams.rescoring.tallies import Distribution, DomainTally

Tree = dict[str, Any]
FLIPS = ("up", "down", "newly_valid", "newly_invalid")


def with_progress(total: int, work: Callable[[Callable[[int], None]], Outcome]) -> Outcome:
    """Return what the work does, its progress on stderr."""
    done = 0
    with progress("records") as tell:

        def add(num: int) -> None:
            nonlocal done
            done += num
            tell(done, total)

        return work(add)


def tree_of(plan: Plan, outcome: Outcome) -> Tree:
    """Return all of it as JSON can hold it."""
    return {
        "scoring_id": plan.scoring.scoring_id,
        "against": plan.against,
        "config_digest": plan.scoring.digest,
        "verifier": msgspec.to_builtins(plan.scoring.choice),
        "verifier_version": plan.scoring.verifier_version,
        "applied": plan.applies,
        "num_records": outcome.num_records,
        "num_scored": outcome.num_scored,
        "num_written": outcome.num_written,
        "num_known": outcome.num_known,
        "num_refused": sum(outcome.refused.values()),
        "refused": dict(sorted(outcome.refused.items())),
        "num_open_groups": outcome.num_open,
        "num_groups_outside": outcome.num_orphans,
        "num_undecodable": outcome.num_undecodable,
        "undecodable": outcome.undecodable,
        **comparison_tree(outcome.comparison),
    }


def comparison_tree(comparison: Comparison) -> Tree:
    """Return domains and groups."""
    return {
        "domains": {name: domain_tree(tally) for name, tally in sorted(comparison.domains.items())},
        "groups": {**msgspec.to_builtins(comparison.groups), "mean_change": comparison.groups.mean_change},
    }


def domain_tree(tally: DomainTally) -> Tree:
    """Return one domain."""
    return {
        "num_compared": tally.num_compared,
        "num_agree": tally.num_agree,
        "agreement": tally.agreement,
        "flips": {direction: tally.flips.get(direction, 0) for direction in FLIPS},
        "num_solved_gained": tally.num_solved_gained,
        "num_solved_lost": tally.num_solved_lost,
        "before": distribution_tree(tally.before),
        "after": distribution_tree(tally.after),
        "without_reward_before": distribution_tree(tally.fresh),
        "examples": {
            direction: [{n: v for n, v in msgspec.to_builtins(e).items() if n != "rank"} for e in examples]
            for direction, examples in sorted(tally.examples.items())
        },
    }


def distribution_tree(distribution: Distribution) -> Tree:
    """Return one distribution of rewards."""
    return {
        "num_valid": distribution.num_valid,
        "num_invalid": distribution.num_invalid,
        "mean": distribution.mean,
        "solved": distribution.solved,
        "histogram": distribution.bins,
        "invalid_reasons": dict(sorted(distribution.reasons.items())),
    }


def print_report(plan: Plan, outcome: Outcome, *, out: TextIO) -> None:
    """Print it for people."""
    console = wide_console(out)
    console.print(f"scoring {plan.scoring.scoring_id} against {plan.against}", markup=False)
    print_comparison(outcome.comparison, console)
    said = f"{outcome.num_written} rewards written" if plan.applies else "nothing written; --apply writes the rewards"
    known = f", {outcome.num_known} were on the log already" if outcome.num_known else ""
    console.print(f"{outcome.num_scored} rollouts scored of {outcome.num_records} records; {said}{known}")
    for reason, count in sorted(outcome.refused.items()):
        console.print(f"{count} refused: {reason}", markup=False)
    if outcome.num_open:
        console.print(f"{outcome.num_open} groups are still open")
    for text in outcome.undecodable:
        console.print(f"undecodable ({outcome.num_undecodable} in all): {text}", markup=False)


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the tables of a comparison."""
    table = Table("domain", "compared", "agree", *FLIPS, "mean", "solved", "histogram by tenths")
    for name, tally in sorted(comparison.domains.items()):
        table.add_row(
            name,
            str(tally.num_compared),
            shown(tally.agreement),
            *(str(tally.flips.get(direction, 0)) for direction in FLIPS),
            f"{shown(tally.before.mean)} -> {shown(tally.after.mean)}",
            f"{shown(tally.before.solved)} -> {shown(tally.after.solved)}",
            f"{bars(tally.before)} -> {bars(tally.after)}",
        )
    console.print(table)
    print_groups(comparison.groups, console)
    examples = Table("domain", "direction", "rollout", "before", "after", "why")
    for name, tally in sorted(comparison.domains.items()):
        for direction, kept in sorted(tally.examples.items()):
            for one in kept:
                examples.add_row(name, direction, one.rollout_id, shown(one.before), shown(one.after), one.detail)
    if examples.row_count:
        console.print(examples)


def print_groups(groups: GroupTally, console: Console) -> None:
    """Print what would have become of groups."""
    console.print(
        f"groups: {groups.num_groups}, {groups.num_changed} with other advantages (by {groups.mean_change:.3f} in the "
        f"mean, {groups.max_change:.3f} at most; {groups.num_sign_flips} of {groups.num_rows} rollouts the other way); "
        f"batches: {groups.num_train_before} -> {groups.num_train_after}, {groups.num_now_train} would train now and "
        f"{groups.num_no_longer_train} no longer"
    )


def shown(value: float | None) -> str:
    """Return a figure as tables have it."""
    return "-" if value is None else f"{value:.3g}"


def bars(distribution: Distribution) -> str:
    """Return a histogram in one character a bin."""
    most = max(distribution.bins) or 1
    return "".join(" ▁▂▃▄▅▆▇█"[-(-8 * count // most)] for count in distribution.bins)
