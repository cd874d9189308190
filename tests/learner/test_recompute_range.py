from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from learner import recompute as single
from learner import recompute_range as module
from learner.checkpoint import list_steps
from learner.loop import learn
from learner.recompute_range import RangeReport, StepVerdict, parse_steps, recompute_range
from schemas.errors import CheckpointError, ConfigError, LogError
from schemas.events import Event
from schemas.objectives import M2po, Objective, Topr
from tests.learner.file_log import FilePublisher, FileReader, append
from tests.learner.policies import batch_event, make_batch, make_policy, make_runtime

ALL = (None, None)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of seven steps, of which only the checkpoints 0, 4, 6 and 7 are kept."""
    home = tmp_path_factory.mktemp("run")
    for index in range(14):
        append(home / "log", "batches", batch_event(make_batch(index)), partition=index % 2)
    runtime = make_runtime(home, make_policy(home / "base"), steps=7, keep_last=2, keep_every=4, warmup_steps=3)
    learn(runtime, FilePublisher(home / "log"), partial(FileReader, home / "log"))  # type: ignore[arg-type]
    assert list_steps(home / "runs/test/checkpoints") == [0, 4, 6, 7]
    return home


def again(home: Path, steps: Any = ALL, reader: type[FileReader] = FileReader, **options: Any) -> RangeReport:
    open_reader: Any = partial(reader, home / "log")
    return recompute_range(open_reader, home / "runs/test", run_id="test", steps=steps, **options)


def log_where(position: str, change: Any) -> type[FileReader]:
    """The log with one event changed, or gone where `change` returns None."""

    class ChangedReader(FileReader):
        def poll(self, **options: Any) -> list[Event[Any]]:
            polled = []
            for event in super().poll(**options):
                record = change(event.record) if str(event.position) == position else event.record
                if record is not None:
                    polled.append(msgspec.structs.replace(event, record=record))
            return polled

    return ChangedReader


def verdicts(report: RangeReport) -> dict[int, str]:
    return {detail.step: detail.verdict for detail in report.details}


def whats(report: RangeReport, step: int) -> list[str]:
    return [d.what for detail in report.details if detail.step == step for d in detail.differences]


def test_all_steps_come_out_again_in_one_pass(home: Path) -> None:
    heard: list[tuple[StepVerdict, int]] = []
    report = again(home, on_step=lambda verdict, total: heard.append((verdict, total)))
    assert (report.steps, report.match, report.differ, report.unreached) == (7, 7, 0, 0)
    assert (report.first, report.last, report.started_from, report.num_bitwise) == (1, 7, 0, 7)
    assert [(verdict.step, total) for verdict, total in heard] == [(step, 7) for step in range(1, 8)]
    assert report.first_difference is None


def test_a_pass_loads_one_checkpoint_where_nothing_differs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    load = module.Training.from_checkpoint
    monkeypatch.setattr(module.Training, "from_checkpoint", lambda path: loaded.append(path.name) or load(path))
    assert again(home).match == 7
    assert loaded == ["step-000000"]


@pytest.mark.parametrize(("steps", "started_from"), [((3, 5), 0), ((5, 5), 4), ((6, 7), 4), ((7, None), 6)])
def test_a_range_starts_from_the_newest_checkpoint_before_it(home: Path, steps: Any, started_from: int) -> None:
    report = again(home, steps)
    assert (report.match, report.started_from) == (report.steps, started_from)
    assert report.steps == (steps[1] or 7) - steps[0] + 1


def test_an_edited_loss_is_a_difference_of_that_step_alone(home: Path) -> None:
    report = again(home, reader=log_where("steps[0]@2", lambda step: msgspec.structs.replace(step, loss=0.5)))
    assert (report.match, report.differ) == (6, 1)
    assert verdicts(report) == {3: "differ"}
    assert whats(report, 3) == ["loss"]


def edit_reward(batch: Any) -> Any:
    row = msgspec.structs.replace(batch.rows[0], reward=0.25)
    return msgspec.structs.replace(batch, rows=(row, *batch.rows[1:]))


def edit_temperature(batch: Any) -> Any:
    row = msgspec.structs.replace(batch.rows[0], temperature=2.0)
    return msgspec.structs.replace(batch, rows=(row, *batch.rows[1:]))


def test_an_edited_reward_is_named_with_its_batch(home: Path) -> None:
    report = again(home, reader=log_where("batches[0]@2", edit_reward))
    assert report.first_difference is not None
    assert (report.first_difference.step, report.first_difference.what) == (3, "batch batches[0]@2 digest")
    assert any("advantage of" in what for what in whats(report, 3))


def test_after_a_difference_the_next_checkpoint_is_taken_up(home: Path) -> None:
    report = again(home, reader=log_where("batches[0]@1", edit_temperature))
    assert verdicts(report) == {2: "differ", 3: "differ", 4: "differ"}
    assert whats(report, 3)[0] == "weights_digest_in"
    assert report.match == 4


def test_a_batch_that_is_gone_leaves_steps_unreached_until_the_next_checkpoint(home: Path) -> None:
    report = again(home, reader=log_where("batches[1]@1", lambda batch: None))
    assert verdicts(report) == {2: "differ", 3: "unreached", 4: "unreached"}
    assert (report.match, report.differ, report.unreached) == (4, 1, 2)
    assert whats(report, 2) == ["batches"]


def test_a_step_that_was_dropped_from_the_log_is_named(home: Path) -> None:
    report = again(home, reader=log_where("steps[0]@4", lambda step: None))
    assert report.first_difference is not None
    assert (report.first_difference.step, report.first_difference.what) == (5, "step")
    assert verdicts(report) == {5: "differ", 6: "unreached"}


def test_what_led_to_a_difference_before_the_range_is_shown_and_not_counted(home: Path) -> None:
    report = again(home, (3, 3), log_where("batches[0]@1", edit_temperature))
    assert (report.steps, report.differ) == (1, 1)
    assert list(verdicts(report)) == [2, 3]


def test_weights_are_not_asked_for_where_only_the_loss_is(home: Path) -> None:
    reader = log_where("steps[0]@1", lambda step: msgspec.structs.replace(step, weights_digest_out="sha256:0"))
    assert again(home, reader=reader).differ == 1
    assert again(home, reader=reader, check="loss").match == 7


def test_other_kernels_are_judged_within_the_tolerance(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for where in (single, module):
        monkeypatch.setattr(where, "describe_kernels", lambda: "an abacus")
    report = again(home)
    assert (report.match, report.num_bitwise, report.tolerance) == (7, 0, single.TOLERANCE)
    off = again(home, reader=log_where("batches[0]@3", edit_temperature))
    assert off.differ >= 1
    assert off.details[0].step == 4


def test_steps_that_the_log_does_not_have_are_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"no steps 3 to 9 .* there are 1 to 7"):
        again(home, (3, 9))
    open_reader: Any = partial(FileReader, home / "log")
    with pytest.raises(LogError, match="no step of run 'other'"):
        recompute_range(open_reader, home / "runs/test", run_id="other", steps=ALL)
    with pytest.raises(CheckpointError, match="no checkpoint before step 1"):
        recompute_range(open_reader, tmp_path, run_id="test", steps=ALL)


def test_ranges_are_read_as_written() -> None:
    assert parse_steps("all") == (None, None)
    assert parse_steps("7") == (7, 7)
    assert parse_steps("3..9") == (3, 9)


@pytest.mark.parametrize("text", ["", "0", "9..3", "3..", "..3", "3-9", "-1", "some"])
def test_other_ranges_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--steps"):
        parse_steps(text)


@pytest.mark.parametrize("objective", [Topr(), M2po(tau=0.5)], ids=lambda o: type(o).__name__)
def test_steps_on_old_data_come_out_again_to_the_bit(tmp_path: Path, objective: Objective) -> None:
    for index in range(6):
        append(tmp_path / "log", "batches", batch_event(make_batch(index, version=-50)), partition=index % 2)
    runtime = make_runtime(tmp_path, make_policy(tmp_path / "base"), steps=3, keep_last=1, objective=objective)
    learn(runtime, FilePublisher(tmp_path / "log"), partial(FileReader, tmp_path / "log"))  # type: ignore[arg-type]
    report = again(tmp_path)
    assert (report.steps, report.match, report.num_bitwise) == (3, 3, 3)
