from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from learner import recompute as module
from learner.checkpoint import list_steps
from learner.loop import learn
from learner.recompute import RecomputeReport, recompute
from schemas.arrays import PackedArray
from schemas.batches import Batch
from schemas.errors import CheckpointError, LogError
from schemas.events import Event
from tests.learner.file_log import FilePublisher, FileReader, append, read_all, read_partition
from tests.learner.policies import batch_event, make_batch, make_policy, make_runtime


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


def again(home: Path, step: int, reader: type[FileReader] = FileReader) -> RecomputeReport:
    return recompute(partial(reader, home / "log"), home / "runs/test", run_id="test", step=step)  # type: ignore[arg-type]


@pytest.mark.parametrize(("step", "started_from"), [(1, 0), (3, 0), (4, 0), (5, 4), (6, 4), (7, 6)])
def test_every_step_comes_out_again_to_the_bit(home: Path, step: int, started_from: int) -> None:
    report = again(home, step)
    assert report.differences == ()
    assert (report.match, report.bitwise, report.tolerance) == (True, True, 0.0)
    assert (report.started_from, report.num_steps, report.num_batches) == (started_from, step - started_from, 2)
    recorded = {e.record.step: e.record for e in read_all(home / "log", "steps")}[step]
    assert report.weights_digest == recorded.weights_digest_out


def reader_that_changes(topic: str, offset: int, change: Any) -> type[FileReader]:
    """Partition 0 of a log that someone changed at one place."""

    class ChangedReader(FileReader):
        def poll(self, **options: Any) -> list[Event[Any]]:
            return [
                msgspec.structs.replace(event, record=change(event.record))
                if event.position is not None
                and (event.position.topic, event.position.partition, event.position.offset) == (topic, 0, offset)
                else event
                for event in super().poll(**options)
            ]

    return ChangedReader


def change_row(**changes: Any) -> Any:
    def change(batch: Batch) -> Batch:
        return msgspec.structs.replace(batch, rows=(msgspec.structs.replace(batch.rows[0], **changes), *batch.rows[1:]))

    return change


def whats(report: RecomputeReport, step: int) -> list[str]:
    return [difference.what for difference in report.differences if difference.step == step]


def test_a_changed_token_is_named_by_its_batch_and_shows_in_what_follows(home: Path) -> None:
    row = read_partition(home / "log", "batches", 0)[1].record.rows[0]
    token_ids = row.token_ids.unpack()
    token_ids[-1] = (token_ids[-1] + 1) % 23
    altered = reader_that_changes("batches", 1, change_row(token_ids=PackedArray.pack(token_ids, dtype="i4")))
    report = again(home, 2, altered)
    assert not report.match
    assert whats(report, 1) == []
    assert whats(report, 2)[:3] == ["batch batches[0]@1 digest", "loss", "grad_norm"]
    assert {"weights_digest_out", "optimizer_digest_out"} <= set(whats(report, 2))


def test_a_changed_advantage_is_named_by_its_rollout(home: Path) -> None:
    rollout_id = read_partition(home / "log", "batches", 0)[0].record.rows[0].rollout_id
    report = again(home, 1, reader_that_changes("batches", 0, change_row(advantage=0.123)))
    assert whats(report, 1)[:2] == [
        "batch batches[0]@0 digest",
        f"batch batches[0]@0 advantage of {rollout_id}",
    ]
    assert report.differences[1].recorded == "0.123"


def test_a_difference_in_an_earlier_step_is_named_there(home: Path) -> None:
    report = again(home, 3, reader_that_changes("batches", 0, change_row(temperature=2.0)))
    assert not report.match
    assert report.differences[0].step == 1
    assert "weights_digest_in" in whats(report, 2)


@pytest.mark.parametrize(
    ("field", "value"),
    [("loss", 0.5), ("grad_norm", 9.0), ("weights_digest_out", "sha256:0"), ("optimizer_digest_out", "sha256:0")],
)
def test_a_changed_record_of_the_step_is_named_by_its_field(home: Path, field: str, value: Any) -> None:
    altered = reader_that_changes("steps", 4, lambda step: msgspec.structs.replace(step, **{field: value}))
    report = again(home, 5, altered)
    assert whats(report, 5) == [field]
    assert report.differences[0].recorded == str(value)


def test_a_batch_that_is_gone_is_a_difference(home: Path) -> None:
    class ForgetfulReader(FileReader):
        def poll(self, **options: Any) -> list[Event[Any]]:
            return [e for e in super().poll(**options) if e.position is None or str(e.position) != "batches[1]@0"]

    report = again(home, 1, ForgetfulReader)
    assert not report.match
    assert whats(report, 1) == ["batches"]
    assert "batches[1]@0" in report.differences[0].found


def test_other_kernels_are_allowed_their_rounding_and_no_more(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "describe_kernels", lambda: "an abacus")
    report = again(home, 4)
    assert (report.match, report.bitwise, report.tolerance) == (True, False, module.TOLERANCE)
    assert report.kernels_here == "an abacus"
    assert report.kernels_recorded != "an abacus"
    other = again(home, 4, reader_that_changes("batches", 2, change_row(reward=1.0, advantage=9.0)))
    assert {"loss", "weights"} <= {difference.what for difference in other.differences}


def test_a_step_that_was_never_taken_is_an_error(home: Path) -> None:
    with pytest.raises(LogError, match=r"no step 8 .* there are 1 to 7"):
        again(home, 8)


def test_a_run_without_checkpoints_cannot_be_recomputed(home: Path, tmp_path: Path) -> None:
    reader: Any = partial(FileReader, home / "log")
    with pytest.raises(CheckpointError, match="no checkpoint before step 2"):
        recompute(reader, tmp_path, run_id="test", step=2)
