"""Bytes of version 1 that are on somebody's log. They are read for ever: never regenerate a file that exists."""

from pathlib import Path

import msgpack
import pytest

from schemas import codec
from schemas.events import Position
from tests import samples

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
RECORDS = samples.records()


@pytest.mark.parametrize("name", RECORDS)
def test_version_1_reads_as_it_always_did(name: str) -> None:
    where = Position(codec.TOPIC_OF[type(RECORDS[name])], 0, 0)
    value = (GOLDEN / f"{name}.msgpack").read_bytes()
    assert codec.decode_record(f"rollog.{name}.v1", value, where=where) == RECORDS[name]


@pytest.mark.parametrize("name", RECORDS)
def test_todays_version_1_is_written_as_it_always_was_but_for_fields_that_came_last(name: str) -> None:
    if codec.current_version(name) == 1:
        golden = list(msgpack.unpackb((GOLDEN / f"{name}.msgpack").read_bytes()).items())
        assert list(msgpack.unpackb(codec.encode_value(RECORDS[name])).items())[: len(golden)] == golden


def test_every_golden_file_belongs_to_a_record() -> None:
    assert {path.stem for path in GOLDEN.glob("*.msgpack")} == set(codec.RECORDS)
