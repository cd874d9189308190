"""Events as Parquet: one file for each type of record, for DuckDB, pandas and the like.

The columns are the record's fields, with the event's envelope before them (`_topic`, `_partition`, `_offset`, `_id`,
`_time`, `_key`, `_source`, `_subject`, `_cause`). Arrays of numbers are lists, records within records are structs,
and what has no one type is JSON. What must hold: an event is written once; a file that is there is whole.
"""

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import inspect

from schemas.arrays import PackedArray
from schemas.codec import snake_case
from schemas.errors import ConfigError
from schemas.events import Event

ROWS_PER_GROUP = 5_000
GROUP_BYTES = 32 << 20
"""Of records as they stood on the log; bounds memory."""
ENVELOPE = pa.schema(
    [
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_id", pa.string()),
        ("_time", pa.timestamp("us", tz="UTC")),
        ("_key", pa.string()),
        ("_source", pa.string()),
        ("_subject", pa.string()),
        ("_cause", pa.string()),
    ]
)
SCALARS: Mapping[type[inspect.Type], pa.DataType] = {
    inspect.BoolType: pa.bool_(),
    inspect.IntType: pa.int64(),
    inspect.FloatType: pa.float64(),
    inspect.StrType: pa.string(),
    inspect.BytesType: pa.binary(),
}


class Table:
    """One type of record on its way to a file."""

    def __init__(self, folder: Path, record: type[Any]) -> None:
        self.path = folder / f"{snake_case(record.__name__)}.parquet"
        self._partial = self.path.with_suffix(".partial")
        info = inspect.type_info(record)
        assert isinstance(info, inspect.StructType)
        self._fields = info.fields
        fields = [pa.field(field.name, arrow_type(field.type, field.name)) for field in info.fields]
        self._schema = pa.schema([*ENVELOPE, *fields])
        self._writer = pq.ParquetWriter(self._partial, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._num_bytes = 0
        self.num_rows = 0

    def add(self, event: Event[Any]) -> None:
        """Take an event that stands on the log."""
        values = {field.name: plain(getattr(event.record, field.name), field.type) for field in self._fields}
        self._rows.append(envelope_of(event) | values)
        self._num_bytes += event.num_bytes
        self.num_rows += 1
        if len(self._rows) >= ROWS_PER_GROUP or self._num_bytes >= GROUP_BYTES:
            self._flush()

    def finish(self) -> None:
        """Write what is left and give the file its name."""
        self._flush()
        self._writer.close()
        os.replace(self._partial, self.path)

    def abandon(self) -> None:
        """Remove what was written."""
        self._writer.close()
        self._partial.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._num_bytes = [], 0


def write_tables(events: Iterable[Event[Any]], folder: Path) -> dict[str, int]:
    """Write all events; returns rows by file name. Raises ConfigError where the folder holds anything."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty: wanted a new folder, since tables of two exports must not mix")
    tables: dict[type[Any], Table] = {}
    try:
        for event in events:
            record = type(event.record)
            if record not in tables:
                tables[record] = Table(folder, record)
            tables[record].add(event)
    except BaseException:
        for table in tables.values():
            table.abandon()
        raise
    for table in tables.values():
        table.finish()
    return {table.path.name: table.num_rows for table in tables.values()}


def envelope_of(event: Event[Any]) -> dict[str, Any]:
    """Return what the envelope says."""
    where = event.position
    assert where is not None
    return {
        "_topic": where.topic,
        "_partition": where.partition,
        "_offset": where.offset,
        "_id": event.id,
        "_time": datetime.fromtimestamp(event.time_s, UTC),
        "_key": event.key,
        "_source": event.source,
        "_subject": event.subject,
        "_cause": event.causation_id,
    }


def without_none(info: inspect.Type) -> inspect.Type:
    """Return the one other type of an optional; every column may be null."""
    if isinstance(info, inspect.UnionType):
        others = [one for one in info.types if not isinstance(one, inspect.NoneType)]
        if len(others) == 1:
            return others[0]
    return info


def arrow_type(info: inspect.Type, name: str) -> pa.DataType:
    """Return the type of a field's column; text, as JSON, where there is no one type."""
    match without_none(info):
        case inspect.StructType(cls=cls) if cls is PackedArray:
            return pa.list_(pa.float32() if "logprob" in name else pa.int32())
        case inspect.StructType(fields=fields):
            return pa.struct([pa.field(field.name, arrow_type(field.type, field.name)) for field in fields])
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return pa.list_(arrow_type(item, name))
        case inspect.DictType(key_type=inspect.StrType(), value_type=value):
            return pa.map_(pa.string(), arrow_type(value, name))
        case inspect.LiteralType(values=values) if all(isinstance(value, str) for value in values):
            return pa.string()
        case other:
            return SCALARS.get(type(other), pa.string())


def plain(value: Any, info: inspect.Type) -> Any:
    """Return a field's value as its column takes it."""
    if value is None:
        return None
    match without_none(info):
        case inspect.StructType(cls=cls) if cls is PackedArray:
            return value.unpack()
        case inspect.StructType(fields=fields):
            return {field.name: plain(getattr(value, field.name), field.type) for field in fields}
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return [plain(one, item) for one in value]
        case inspect.DictType(key_type=inspect.StrType(), value_type=item):
            return [(key, plain(one, item)) for key, one in value.items()]
        case inspect.LiteralType() | inspect.StrType():
            return value
        case other:
            return value if type(other) in SCALARS else msgspec.json.encode(value).decode()
