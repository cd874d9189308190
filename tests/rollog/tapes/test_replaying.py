"""History is played again into a namespace of its own, never into its source."""

from pathlib import Path

import msgspec
import pytest

from consumers.tapes.exporting import export
from producers.pacing import Pace
from producers.publisher import Publisher
from rollog.tapes.replaying import replay
from schemas.config import LogSettings
from schemas.errors import ConfigError
from schemas.topics import TOPICS
from tests import samples
from tests.logs import new_log, read_all
from tests.rollog.tapes.recorded import NUM_TURNS, all_records, record_some, rollog, tree


@pytest.fixture
def log(broker: str, namespace: str) -> LogSettings:
    return new_log(broker, namespace)


def target_of(log: LogSettings) -> LogSettings:
    return msgspec.structs.replace(log, namespace=f"again{log.namespace}")


def test_all_comes_again_byte_for_byte_in_another_namespace_and_nothing_else_changes(
    log: LogSettings, tmp_path: Path
) -> None:
    record_some(log, tmp_path)
    before, target = all_records(log, tmp_path), target_of(log)

    options = ["replay", "--into", target.namespace, "--speed", "0", "--json"]
    dry = tree(rollog(*options, log=log, home=tmp_path))
    done = tree(rollog(*options, "--apply", log=log, home=tmp_path))

    assert (dry["applied"], dry["num_written"], dry["num_records"]) == (False, 0, NUM_TURNS + 4)
    assert (done["applied"], done["num_written"]) == (True, NUM_TURNS + 4)
    assert all_records(target, tmp_path) == before == all_records(log, tmp_path)
    assert list(tmp_path.glob("replay-*")) == []


def test_a_tapes_topics_can_be_played_without_its_log(log: LogSettings, tmp_path: Path) -> None:
    record_some(log, tmp_path)
    path, target = tmp_path / "a.tape", target_of(log)
    export(log, path, ["rollouts", "steps", "rewards"], blob_dir=tmp_path / "blobs")

    options = ["--into", target.namespace, "--speed", "0", "--tape", str(path), "--topics", "steps,rewards"]
    done = tree(rollog("replay", *options, "--apply", "--json", log=log, home=tmp_path))

    assert done["num_written"] == 3
    played = {at: records for at, records in all_records(target, tmp_path).items() if records}
    assert {at[0] for at in played} == {"steps", "rewards"}


@pytest.mark.parametrize("apply", [[], ["--apply"]])
def test_the_source_is_never_written_to(log: LogSettings, tmp_path: Path, apply: list[str]) -> None:
    record_some(log, tmp_path)
    before = all_records(log, tmp_path)
    result = rollog("replay", "--into", log.namespace, "--speed", "0", *apply, log=log, home=tmp_path)
    assert isinstance(result.exception, ConfigError)
    assert "where the records come from" in str(result.exception)
    assert all_records(log, tmp_path) == before


def test_a_namespace_that_holds_anything_is_refused(log: LogSettings, tmp_path: Path) -> None:
    record_some(log, tmp_path)
    options = ["replay", "--into", target_of(log).namespace, "--speed", "0", "--apply"]
    assert rollog(*options, log=log, home=tmp_path).exit_code == 0
    again = rollog(*options, log=log, home=tmp_path)
    assert isinstance(again.exception, ConfigError)
    assert "is not empty" in str(again.exception)


@pytest.mark.parametrize(
    "options", [["--into", ""], ["--into", "x.", "--speed", "-1"], ["--into", "x.", "--tape", "a", "--since", "1h"]]
)
def test_what_cannot_be_played_is_refused(log: LogSettings, tmp_path: Path, options: list[str]) -> None:
    assert isinstance(rollog("replay", *options, log=log, home=tmp_path).exception, ConfigError)


def test_records_are_written_in_the_order_of_time_when_they_are_due(log: LogSettings, tmp_path: Path) -> None:
    publisher = Publisher(log, source="test", blob_dir=tmp_path / "blobs")
    wanted = [1_000, 2_500, 3_000, 9_000, 20_000]
    for order, time_ms in enumerate(wanted):
        record, key = (samples.turn(), samples.TASK_ID) if order % 2 else (samples.step(), "golden")
        event = publisher.event(record, id=str(order), key=key)
        publisher.send_all([msgspec.structs.replace(event, time_s=time_ms / 1000)])
    publisher.close()
    path = tmp_path / "a.tape"
    export(log, path, list(TOPICS), blob_dir=tmp_path / "blobs")
    now_s, waits = [0.0], []

    def wait(timeout_s: float) -> None:
        waits.append(timeout_s)
        now_s[0] += timeout_s

    pace = Pace(2.0, clock=lambda: now_s[0], wait=wait)
    done = replay(target_of(log), path, list(TOPICS), pace=pace, blob_dir=tmp_path / "blobs", apply=True)

    assert waits == pytest.approx([0.75, 0.25, 3.0, 5.5])
    assert done.original_s == 19.0
    assert done.late_s == 0.0
    assert [e.id for e in read_all(target_of(log), "steps", tmp_path / "blobs")] == ["0", "2", "4"]
