import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from rich.console import Console

from rollog.accounting import Accounts
from rollog.demo import demo_settings, fresh_run, goals_missed, middle_step
from rollog.figures import Figures
from rollog.live import Lines, line, table
from rollog.observer import Observer
from rollog.report import account_tree, bytes_per_token, print_report
from schemas.codec import new_event
from schemas.config import Settings, load_settings
from schemas.errors import ConfigError
from tests.samples import TASK_ID, records, step, task

RECORDS = records()


def accounts() -> Accounts:
    books = Accounts("golden")
    evaluation = RECORDS["eval_scored"]
    before = msgspec.structs.replace(evaluation, version=0, solve_rate=0.2)
    after = msgspec.structs.replace(evaluation, version=60, solve_rate=0.95)
    for index, record in enumerate([task(), RECORDS["batch"], before, after, step()]):
        books.add(new_event(record, id=f"e{index}", key=TASK_ID, source="rollog/test"))
    return books


def observer(last_step: object = None) -> Observer:
    settings = load_settings(flags=["run=golden"])
    seen = SimpleNamespace(
        accounts=accounts(),
        last_step=last_step,
        last_alert=None,
        figures={"verifier-0": Figures(busy=0.5, in_flight=3, lag=17)},
        rates={"verifier-0": (12.0, 6.0)},
        up=SimpleNamespace(settings=settings, supervisor=SimpleNamespace(restarts={"verifier-0": 2})),
    )
    return cast(Observer, seen)


def report() -> dict[str, Any]:
    tree = account_tree(accounts())
    tree |= bytes_per_token({"rollouts": 700, "tasks": 300}, 100)
    return tree | {"recompute": {"step": 3, "match": True}, "wall_s": 12.0, "peak_rss_mb": 900.0}


def test_the_report_has_first_and_last_evaluated_version() -> None:
    tree = report()

    assert tree["solve_rate"]["before"] == {"repair": 0.2}
    assert tree["solve_rate"]["after"] == {"repair": 0.95}
    assert tree["tasks"] == {"issued": 1, "batched": 1, "decided": {}, "deadlettered": 0, "open": 0}
    assert tree["bytes_per_token"] == 7.0
    assert tree["bytes_per_token_all_topics"] == 10.0


def test_goals_that_hold_are_no_findings() -> None:
    assert goals_missed(report(), domains=["repair"]) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"solve_rate": {"before": {"repair": 0.31}, "after": {"repair": 1.0}}}, "before"),
        ({"solve_rate": {"before": {"repair": 0.1}, "after": {"repair": 0.89}}}, "after"),
        ({"solve_rate": {"before": {"repair": 0.1}, "after": {}}}, "after"),
        ({"recompute": {"step": 3, "match": False}}, "recomputed"),
    ],
)
def test_every_goal_that_is_missed_is_a_finding(change: dict[str, Any], word: str) -> None:
    missed = goals_missed(report() | change, domains=["repair"])

    assert len(missed) == 1
    assert word in missed[0]


def test_the_printed_report_says_what_matters() -> None:
    out = io.StringIO()

    print_report(report(), Console(file=out, width=200))

    for text in ("repair", "20.0%", "95.0%", "1 batched", "step 3 recomputed: match", "7.0 bytes"):
        assert text in out.getvalue()


def test_runs_are_never_written_over(tmp_path: Path) -> None:
    first = fresh_run(Settings(), tmp_path, prefix="demo-7")
    second = fresh_run(Settings(), tmp_path, prefix="demo-7")

    assert (first.run, first.log.namespace) == ("demo-7-1", "demo-7-1.")
    assert (second.run, second.log.namespace) == ("demo-7-2", "demo-7-2.")


def test_the_demos_settings_are_the_shipped_file_under_the_command_line() -> None:
    settings = demo_settings(5, [], ["learner.steps=3"])

    assert (settings.seed, settings.learner.steps) == (5, 3)
    assert set(settings.tasks.domains) == {"verbs", "repair"}


def test_a_demo_without_an_end_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"learner\.steps"):
        demo_settings(0, [], ["learner.steps=0"])


def test_the_live_view_shows_services_domains_and_the_whole() -> None:
    out = io.StringIO()

    Console(file=out, width=140).print(table(observer(step())))

    for text in ("verifier", "12", "17", "50%", "starting", "0.88", "20% → 95%", "1 issued 0 open"):
        assert text in out.getvalue(), text


def test_the_line_before_the_first_step_says_so() -> None:
    assert "step 0" in line(observer())
    assert "repair solved 95%" in line(observer())


def test_lines_are_printed_now_and_then_only() -> None:
    out = io.StringIO()
    lines = Lines(observer(), Console(file=out, width=140))

    lines()
    lines()

    assert len(out.getvalue().splitlines()) == 1


@pytest.mark.parametrize(("last", "step"), [(104, 41), (1, 1), (3, 1), (40, 21), (2, 1)])
def test_the_step_that_is_recomputed_follows_a_checkpoint_that_is_kept(last: int, step: int) -> None:
    assert middle_step(last, every=20) == step
