"""What a run came to, as a tree for report.json and for people: from the log, the run's folder and the system."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from rollog.accounting import Accounts, read_accounts
from schemas.config import Settings

Tree = dict[str, Any]


def account_for(settings: Settings, *, blob_dir: Path) -> Tree:
    """Read the whole log and return what became of a run's tasks and batches. Raises LogError."""
    return account_tree(read_accounts(settings.log, settings.run, blob_dir=blob_dir))


def account_tree(accounts: Accounts) -> Tree:
    """Return the books of a run, and under `findings` all that is wrong with them."""
    versions = sorted(accounts.solve_rates)
    return {
        "run": accounts.run_id,
        "solve_rate": {
            "before": accounts.solve_rates[versions[0]] if versions else {},
            "after": accounts.solve_rates[versions[-1]] if versions else {},
            "by_version": {str(version): accounts.solve_rates[version] for version in versions},
        },
        "rollouts": accounts.counts["RolloutEnded"],
        "turns": accounts.counts["TurnGenerated"],
        "tokens": accounts.num_tokens,
        "steps": len(accounts.steps),
        "effective_share": {domain: round(share, 4) for domain, share in accounts.effective_share.items()},
        "tasks": msgspec.to_builtins(accounts.tasks),
        "batches": accounts.batches,
        "invalid_rewards": dict(accounts.invalid),
        "quarantines": [
            {"quarantine_id": one.quarantine_id, "selection": one.selection.text, "given_by": one.given_by}
            for one in accounts.recalls.in_force(accounts.run_id)
        ],
        "rollbacks": [{"step": step, "to_version": to} for step, to in sorted(accounts.restored.items())],
        "alerts": dict(accounts.alerts),
        "deadletters": accounts.num_deadletters,
        "repeats": accounts.num_repeats,
        "findings": accounts.balance(),
    }


def bytes_per_token(sizes: Mapping[str, int], num_tokens: int) -> Tree:
    """Return bytes of log by sampled token: all topics, the rollouts alone, and by topic."""
    tokens = max(1, num_tokens)
    return {
        "bytes_per_token": round(sizes["rollouts"] / tokens, 2),
        "bytes_per_token_all_topics": round(sum(sizes.values()) / tokens, 2),
        "log_bytes": dict(sizes),
    }


def print_report(report: Tree, console: Console) -> None:
    """Print the few figures that matter."""
    rates = Table("held out", "before", "after", box=None, pad_edge=False)
    for domain, after in sorted(report["solve_rate"]["after"].items()):
        rates.add_row(domain, f"{report['solve_rate']['before'].get(domain, 0.0):.1%}", f"{after:.1%}")
    console.print(rates)
    tasks, recompute = report["tasks"], report["recompute"]
    decided = ", ".join(f"{count} {reason}" for reason, count in sorted(tasks["decided"].items()))
    lines = (
        f"{report['steps']} steps, {report['rollouts']} rollouts, {report['tokens']} tokens, {report['wall_s']:.0f} s",
        f"{tasks['issued']} tasks: {tasks['batched']} batched, {decided}, {tasks['deadlettered']} dead-lettered, "
        f"{tasks['open']} open",
        f"step {recompute['step']} recomputed: {'match' if recompute['match'] else 'differs'}",
        f"{report['effective_share'].get('*', 0.0):.0%} of the tokens drawn for training were trained on",
        f"{report['bytes_per_token']} bytes of rollouts a token, {report['peak_rss_mb']:.0f} MB resident at most",
        *(f"[red]{count} alerts: {signal}[/red]" for signal, count in report.get("alerts", {}).items()),
        *(f"[red]not as it should be: {finding}[/red]" for finding in report["findings"]),
    )
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)
