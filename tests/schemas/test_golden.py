"""Bytes of version 1 that are on somebody's log. They are read for ever: never regenerate a file that exists."""

from pathlib import Path
from typing import Any

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
        golden = msgpack.unpackb((GOLDEN / f"{name}.msgpack").read_bytes())
        assert without_later(msgpack.unpackb(codec.encode_value(RECORDS[name])), golden) == golden


def without_later(today: Any, golden: Any) -> Any:
    """Return today's value without the fields that stand behind those which a record of the golden value has."""
    if isinstance(today, dict) and isinstance(golden, dict):
        first = list(today.items())[: len(golden)]
        return {name: without_later(value, golden.get(name)) for name, value in first}
    return today


def test_every_golden_file_belongs_to_a_record() -> None:
    assert {path.stem for path in GOLDEN.glob("*.msgpack")} == set(codec.RECORDS)
