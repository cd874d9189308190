"""The whole loop in little: real broker, real policy, real sandbox, every service its own process, to the report."""

import json
from functools import partial
from pathlib import Path

from rich.console import Console

from consumers.bounds import read_state
from consumers.reader import Reader
from learner.recompute_range import recompute_range
from rollog.demo import demo
from rollog.verify_log import verify
from schemas.config import Settings, load_settings

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

    settings = load_settings(flags=flags)
    report = await demo(settings, home=tmp_path, console=Console(file=(tmp_path / "out").open("w")))

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
    check_history(settings, tmp_path)


def check_history(settings: Settings, home: Path) -> None:
    """All that the services wrote holds together, and every step comes out again to the bit."""
    open_reader = partial(Reader, settings.log, blob_dir=home / "blobs")
    bounds = read_state(settings.log).bounds
    found = verify(open_reader, home / "blobs", judged=bounds, read_to=bounds, scratch=home / "index", strict=False)
    assert found.details == ()
    assert found.counts["open"] == 0
    assert found.counts["steps"] == 4
    again = recompute_range(open_reader, home / "runs" / "loop", run_id="loop", steps=(None, None))
    assert again.details == ()
    assert (again.steps, again.match, again.num_bitwise) == (4, 4, 4)
