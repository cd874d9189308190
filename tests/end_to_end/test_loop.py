"""The whole loop in little: real broker, real policy, real sandbox, every service its own process, to the report."""

import json
from pathlib import Path

from rich.console import Console

from rollog.demo import demo
from schemas.config import load_settings

POLICY = Path(__file__).parents[2] / "demo" / "policy"


async def test_a_short_run_ends_with_books_that_balance_and_a_step_that_can_be_done_again(
    broker: str, namespace: str, tmp_path: Path
) -> None:
    flags = [
        f"log.bootstrap={broker}",
        f"log.namespace={namespace}",
        "run=loop",
        f"policy.base={POLICY}",
        "learner.steps=4",
        "learner.groups_per_step=8",
        "evaluation.every=2",
        "evaluation.num_tasks=8",
    ]

    report = await demo(load_settings(flags=flags), home=tmp_path, console=Console(file=(tmp_path / "out").open("w")))

    # So few steps teach little: how much is solved is `make demo`'s to show.
    assert [finding for finding in report["findings"] if "solved" not in finding] == [], report["findings"]
    tasks = report["tasks"]
    assert tasks["open"] == 0
    assert tasks["issued"] == tasks["batched"] + sum(tasks["decided"].values()) + tasks["deadlettered"]
    assert tasks["decided"]["held_out"] == 3 * 2 * 8
    assert report["steps"] == 4
    assert sorted(report["solve_rate"]["by_version"]) == ["0", "2", "4"]
    assert report["recompute"]["match"] is True
    assert report["restarts"] == dict.fromkeys(report["restarts"], 0)
    assert report["rollouts"] > 0
    assert report["tokens"] > report["rollouts"]
    assert set(report["busy"]) == set(report["restarts"])
    assert (tmp_path / "runs" / "loop" / "checkpoints" / "step-000004" / "model.safetensors").is_file()
    assert json.loads(json.dumps(report)) == report
