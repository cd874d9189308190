"""A step is done again from a tape and the run's folder, with no log anywhere."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from consumers.orphans import raw_of
from consumers.tapes.format import Item, TapeRecord, seal
from consumers.tapes.verify import verify
from consumers.tapes.writer import TapeWriter
from learner.loop import learn
from rollog.cli import app
from rollog.exit_codes import ExitCode
from schemas.batches import Batch
from schemas.errors import LogError, TapeError
from tests.consumers.tapes.small_tapes import forge
from tests.learner.file_log import FilePublisher, FileReader, append, read_partition
from tests.learner.policies import batch_event, make_batch, make_policy, make_runtime


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of three steps, and a tape of its log."""
    home = tmp_path_factory.mktemp("run")
    for index in range(6):
        append(home / "log", "batches", batch_event(make_batch(index)), partition=index % 2)
    runtime = make_runtime(home, make_policy(home / "base"), steps=3, keep_last=1, keep_every=0)
    learn(runtime, FilePublisher(home / "log"), partial(FileReader, home / "log"))  # type: ignore[arg-type]
    write_tape(home, home / "run.tape", ("steps", "policies", "batches"))
    return home


def write_tape(home: Path, path: Path, topics: tuple[str, ...]) -> None:
    with TapeWriter(path) as writer:
        for topic in topics:
            for partition in range(2):
                events = read_partition(home / "log", topic, partition)
                writer.begin(topic, partition, 0)
                for event in events:
                    writer.add(raw_of(event))
                writer.end(len(events))
        writer.finish()


def recompute(home: Path, tape: Path, step: int) -> Any:
    arguments = ["recompute", str(step), "--tape", str(tape), "--set", "run=test", "--home", str(home), "--json"]
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_every_step_comes_out_again_to_the_bit(home: Path, step: int) -> None:
    result = recompute(home, home / "run.tape", step)

    report = json.loads(result.stdout)
    assert result.exit_code == ExitCode.OK
    assert (report["match"], report["bitwise"], report["differences"]) == (True, True, [])
    assert report["num_steps"] == step


def test_a_reward_that_was_edited_with_every_digest_made_to_fit_is_named_by_its_batch(
    home: Path, tmp_path: Path
) -> None:
    def edit(item: Item, sealed: bytes) -> bytes:
        if not isinstance(item, TapeRecord) or (item.topic, item.partition, item.offset) != ("batches", 1, 1):
            return sealed
        batch = msgspec.msgpack.decode(item.value or b"", type=Batch)
        row = msgspec.structs.replace(batch.rows[0], reward=batch.rows[0].reward + 1.0)
        batch = msgspec.structs.replace(batch, rows=(row, *batch.rows[1:]))
        fields = (*msgspec.structs.astuple(item)[:5], msgspec.msgpack.encode(batch), item.headers)
        return seal(TapeRecord(*fields))

    forge(home / "run.tape", tmp_path / "forged.tape", edit)
    result = recompute(home, tmp_path / "forged.tape", 3)

    assert verify(tmp_path / "forged.tape").faults == ()
    assert result.exit_code == ExitCode.FELL_SHORT
    whats = [difference["what"] for difference in json.loads(result.stdout)["differences"]]
    assert whats[0] == "batch batches[1]@1 digest"


def test_a_damaged_tape_is_an_error_and_no_difference(home: Path, tmp_path: Path) -> None:
    content = bytearray((home / "run.tape").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "bad.tape").write_bytes(content)
    assert isinstance(recompute(home, tmp_path / "bad.tape", 3).exception, TapeError)


def test_a_tape_without_the_topics_that_it_takes_is_refused(home: Path, tmp_path: Path) -> None:
    write_tape(home, tmp_path / "short.tape", ("steps", "batches"))
    result = recompute(home, tmp_path / "short.tape", 3)
    assert isinstance(result.exception, LogError)
    assert "policies is not on the tape" in str(result.exception)
