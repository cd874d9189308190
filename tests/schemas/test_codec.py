from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import codec
from schemas.errors import DecodeError
from schemas.events import Event, Position
from schemas.limits import MAX_RECORD_BYTES
from schemas.topics import TOPICS
from tests import samples

RECORDS = samples.records()


def written(record: Any) -> tuple[Event[Any], Position, bytes, bytes, list[tuple[str, bytes]]]:
    key = getattr(record, "task_id", "key")
    event = codec.new_event(record, id="e1", key=key, source="rollog/test", subject="s", correlation_id="c", time_s=1.5)
    where = Position(codec.TOPIC_OF[type(record)], 2, 40)
    return event, where, key.encode(), codec.encode_value(record), codec.encode_headers(event)


@pytest.mark.parametrize("name", RECORDS)
def test_an_event_comes_back_whole(name: str) -> None:
    event, where, key, value, headers = written(RECORDS[name])
    read = codec.decode(key, value, headers, where=where)
    assert msgspec.structs.replace(read, position=None, num_bytes=0) == event
    assert read.position == where
    assert read.num_bytes == len(key) + len(value) + sum(len(n) + len(v) for n, v in headers)


def test_every_record_of_the_catalogue_has_an_example() -> None:
    assert set(RECORDS) == set(codec.RECORDS)
    assert sum(len(topic.records) for topic in TOPICS.values()) == len(codec.RECORDS)


def test_a_plain_msgpack_reader_understands_values_without_a_schema() -> None:
    fields = msgpack.unpackb(codec.encode_value(RECORDS["reward_scored"]))
    assert fields["value"] == 0.5
    assert fields["parts"] == {"stdout": 0.5}


def test_an_event_takes_trace_and_correlation_from_its_cause() -> None:
    cause = msgspec.structs.replace(written(samples.task())[0], traceparent="00-aa-bb-01")
    event = codec.new_event(samples.turn(), id="e2", key="k", source="s", cause=cause)
    assert (event.causation_id, event.correlation_id, event.traceparent) == ("e1", "c", "00-aa-bb-01")


def without(headers: list[tuple[str, bytes]], name: str) -> list[tuple[str, bytes]]:
    return [(n, v) for n, v in headers if n != name]


def with_header(headers: list[tuple[str, bytes]], name: str, value: bytes) -> list[tuple[str, bytes]]:
    return [*without(headers, name), (name, value)]


@pytest.mark.parametrize("missing", ["ce_id", "ce_type", "ce_source", "ce_time"])
def test_an_envelope_that_lacks_a_header_is_refused_by_name(missing: str) -> None:
    _, where, key, value, headers = written(samples.turn())
    with pytest.raises(DecodeError, match=rf"rollouts\[2\]@40: no header {missing}"):
        codec.decode(key, value, without(headers, missing), where=where)


@pytest.mark.parametrize(
    ("header", "content", "said"),
    [
        ("ce_type", b"com.example.other.v1", "unknown type"),
        ("ce_type", b"rollog.turn_generated.v2", "got version 2, wanted 1 to 1"),
        ("ce_type", b"rollog.turn_generated.v0", "got version 0, wanted 1 to 1"),
        ("ce_type", b"rollog.reward_scored.v1", "does not belong on topic rollouts"),
        ("ce_type", b"\xff", "is not UTF-8"),
        ("ce_time", b"yesterday", "no RFC 3339 time"),
    ],
)
def test_an_envelope_that_is_wrong_is_refused_with_what_was_wanted(header: str, content: bytes, said: str) -> None:
    _, where, key, value, headers = written(samples.turn())
    with pytest.raises(DecodeError, match=said):
        codec.decode(key, value, with_header(headers, header, content), where=where)


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_raise_a_decode_error(junk: bytes) -> None:
    _, where, key, _, headers = written(samples.turn())
    with pytest.raises(DecodeError):
        codec.decode(key, junk, headers, where=where)


@given(st.integers(0, 400))
def test_a_truncated_value_is_refused(length: int) -> None:
    _, where, key, value, headers = written(samples.turn())
    with pytest.raises(DecodeError):
        codec.decode(key, value[: min(length, len(value) - 1)], headers, where=where)


def test_missing_key_missing_value_and_no_headers_are_refused() -> None:
    _, where, key, value, headers = written(samples.turn())
    for case in ((None, value, headers), (key, None, headers), (key, value, None), (b"\xff", value, headers)):
        with pytest.raises(DecodeError):
            codec.decode(*case, where=where)


def test_a_value_over_the_limit_is_refused_before_it_is_parsed() -> None:
    _, where, key, _, headers = written(samples.turn())
    with pytest.raises(DecodeError, match=f"at most {MAX_RECORD_BYTES}"):
        codec.decode(key, bytes(MAX_RECORD_BYTES + 1), headers, where=where)


def test_a_record_under_another_tasks_key_is_refused() -> None:
    _, where, _, value, headers = written(samples.turn())
    with pytest.raises(DecodeError, match="but the record's task_id is"):
        codec.decode(b"other", value, headers, where=where)


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        ("task_issued", {"num_samples": 10**9}),
        ("task_issued", {"num_samples": 0}),
        ("task_issued", {"max_turns": 0}),
        ("task_issued", {"deadline_s": float("nan")}),
        ("task_issued", {"deadline_s": float("inf")}),
        ("task_issued", {"sampling": {"temperature": float("nan")}}),
        ("task_issued", {"sampling": {"top_p": 0.0}}),
        ("turn_generated", {"token_ids": samples.ids(1)}),
        ("turn_generated", {"rollout_id": "x/0"}),
        ("turn_generated", {"logprobs": {"dtype": "f4", "data": b"\x00\x00\x00\x00\x00\x00\xc0\xc0\xc0\x7f\x7f\x7f"}}),
        ("reward_scored", {"value": None}),
        ("reward_scored", {"invalid_reason": "infrastructure"}),
        ("reward_scored", {"value": 1.5}),
        ("reward_scored", {"value": float("nan")}),
        ("execution_finished", {"rollout_id": f"{samples.TASK_ID}/x"}),
        ("turn_generated", {"token_ids": {"dtype": "i4", "data": b"123"}}),
    ],
)
def test_a_record_that_contradicts_itself_is_refused_when_read(record: str, changes: dict[str, Any]) -> None:
    _, where, key, value, headers = written(RECORDS[record])
    fields = msgpack.unpackb(value) | msgspec.to_builtins(changes, builtin_types=(bytes,))
    with pytest.raises(DecodeError):
        codec.decode(key, msgpack.packb(fields), headers, where=where)
