"""Digests that outlive fields that come later."""

import hashlib
from typing import Any

import msgpack
import msgspec
import pytest

from schemas.content import record_digest
from schemas.objectives import Cispo, Objective
from schemas.tasks import VerifierSpec
from tests import samples

RECORDS = samples.records()


def grown(record: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The record as a later release may have it: two more last fields, with defaults."""
    fields: list[Any] = [("later", int, 0), ("later_still", dict[str, int], msgspec.field(default_factory=dict))]
    return msgspec.defstruct(f"{record.__name__}Grown", fields, bases=(record,), frozen=True, kw_only=True)


@pytest.mark.parametrize("name", RECORDS)
def test_a_field_that_came_last_does_not_change_what_was_written_before_it(name: str) -> None:
    record: Any = RECORDS[name]
    later = grown(type(record))
    again = later(**{field: getattr(record, field) for field in record.__struct_fields__})
    assert record_digest(again) == record_digest(record)
    assert record_digest(msgspec.structs.replace(again, later=1)) != record_digest(record)  # type: ignore[call-arg]


def test_a_record_within_a_record_may_grow_too() -> None:
    batch = samples.records()["batch"]
    row = batch.rows[0]
    later = grown(type(row))(**{field: getattr(row, field) for field in row.__struct_fields__})
    assert record_digest(msgspec.structs.replace(batch, rows=(later, *batch.rows[1:]))) == record_digest(batch)


@pytest.mark.parametrize(
    ("field", "value"), [("value", 0.25), ("verifier", "other"), ("sample", 5), ("parts", {"a": 0.5}), ("detail", "x")]
)
def test_whatever_differs_shows(field: str, value: Any) -> None:
    reward = samples.reward()
    assert record_digest(msgspec.structs.replace(reward, **{field: value})) != record_digest(reward)


def test_the_kind_of_one_of_several_records_shows() -> None:
    class Other(Cispo, frozen=True, kw_only=True, tag_field="type", tag="other"):
        pass

    kinds: list[Objective] = [Cispo(), Other()]
    assert record_digest(kinds[0]) != record_digest(kinds[1])


def test_the_digest_is_over_a_map_of_what_differs_from_the_defaults() -> None:
    spec = VerifierSpec(kind="stdout_match", expected="56")
    spelled = msgpack.packb({"kind": "stdout_match", "expected": "56"})
    assert record_digest(spec) == "sha256:" + hashlib.sha256(spelled).hexdigest()
