"""Tables hold what the records hold, whatever the record."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from consumers import parquet
from consumers.parquet import write_tables
from schemas import codec
from schemas.arrays import PackedArray
from schemas.errors import ConfigError
from schemas.events import Event, Position
from tests import samples

RECORDS = samples.records()


def event_of(record: object, offset: int = 0) -> Event[Any]:
    where = Position(codec.TOPIC_OF[type(record)], 2, offset)
    return Event(
        id=f"id-{offset}",
        type=codec.type_of(type(record)),
        source="rollog/test-0",
        time_s=1_790_000_000.25,
        key="k",
        causation_id="cause",
        record=record,
        position=where,
        num_bytes=100,
    )


def expected(value: Any) -> Any:
    """What a reader of tables wants to see of a value, by the value alone."""
    match value:
        case PackedArray():
            return [pytest.approx(item, rel=1e-6) for item in value.unpack().tolist()]
        case msgspec.Struct():
            return {name: expected(getattr(value, name)) for name in value.__struct_fields__}
        case list() | tuple():
            return [expected(item) for item in value]
        case dict() if len({type(item) for item in value.values()}) <= 1:
            return [(key, expected(item)) for key, item in value.items()]
        case _:
            return value


def is_same(got: Any, wanted: Any) -> bool:
    """Compare; what has no one type came as JSON."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        return got.keys() == wanted.keys() and all(is_same(got[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list | tuple) and isinstance(got, list | tuple):
        return len(got) == len(wanted) and all(map(is_same, got, wanted))
    return bool(got == wanted) or (isinstance(got, str) and json.loads(got) == msgspec.to_builtins(wanted))


@pytest.mark.parametrize("name", RECORDS)
def test_every_field_of_every_record_is_a_column_with_its_value(name: str, tmp_path: Path) -> None:
    record = RECORDS[name]
    assert write_tables([event_of(record, 7)], tmp_path / "tables") == {f"{name}.parquet": 1}
    (row,) = pq.read_table(tmp_path / "tables" / f"{name}.parquet").to_pylist()
    for field, wanted in expected(record).items():
        assert is_same(row[field], wanted), field
    assert (row["_topic"], row["_partition"], row["_offset"]) == (codec.TOPIC_OF[type(record)], 2, 7)
    assert (row["_id"], row["_cause"], row["_time"].timestamp()) == ("id-7", "cause", 1_790_000_000.25)


def test_numbers_are_numbers_and_tokens_are_lists(tmp_path: Path) -> None:
    write_tables([event_of(samples.turn()), event_of(samples.reward(value=0.5), 1)], tmp_path / "tables")
    turn = pq.read_schema(tmp_path / "tables" / "turn_generated.parquet")
    reward = pq.read_schema(tmp_path / "tables" / "reward_scored.parquet")
    assert str(turn.field("token_ids").type) == "list<element: int32>"
    assert str(turn.field("logprobs").type) == "list<element: float>"
    assert str(reward.field("value").type) == "double"


def test_rows_are_written_in_groups_so_that_few_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROWS_PER_GROUP", 10)
    assert write_tables([event_of(samples.reward(), n) for n in range(25)], tmp_path / "t") == {
        "reward_scored.parquet": 25
    }
    table = pq.ParquetFile(tmp_path / "t" / "reward_scored.parquet")
    assert (table.num_row_groups, table.read()["_offset"].to_pylist()) == (3, list(range(25)))


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.parquet").touch()
    with pytest.raises(ConfigError, match="is not empty"):
        write_tables([event_of(samples.reward())], tmp_path)


def test_no_half_table_is_left_where_reading_fails(tmp_path: Path) -> None:
    def failing() -> Any:
        yield event_of(samples.reward())
        raise OSError("the cable was pulled")

    with pytest.raises(OSError, match="cable"):
        write_tables(failing(), tmp_path / "tables")
    assert list((tmp_path / "tables").iterdir()) == []
