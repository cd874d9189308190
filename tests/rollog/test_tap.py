import io
import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from producers.publisher import Publisher
from rollog.tap import Query, json_of, line_of, matching, parse_since, parse_where, print_events
from rollog.topics import create_topics
from schemas.codec import new_event
from schemas.config import LogSettings
from schemas.errors import ConfigError
from schemas.events import Event, Position
from tests.samples import TASK_ID, execution, reward, turn


def event(record: Any, index: int = 0) -> Event[Any]:
    return Event(
        id=f"e{index}",
        type="rollog.reward_scored.v1",
        source="rollog/verifier-0",
        time_s=1000.0 + index,
        key=TASK_ID,
        record=record,
        position=Position("rewards", 1, index),
    )


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", "beginning"),
        ("now", "end"),
        ("10m", 400.0),
        ("1.5h", -4400.0),
        ("90s", 910.0),
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("1970-01-01T00:00:05", 5.0),
    ],
)
def test_since_is_a_duration_a_time_or_an_end(text: str, start: object) -> None:
    assert parse_since(text, now_s=1000.0) == start


@pytest.mark.parametrize("text", ["", "yesterday", "10", "m", "-5m", "10m ago"])
def test_since_refuses_what_it_does_not_understand(text: str) -> None:
    with pytest.raises(ConfigError, match="--since"):
        parse_since(text)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("domain=repair", True),
        ("domain!=repair", False),
        ("domain = 'repair'", True),
        ("value>0.4", True),
        ("value>=0.5", True),
        ("value>0.5", False),
        ("value<1", True),
        ("value=none", False),
        ("verifier_version=1", True),
        ("parts.stdout=0.5", True),
        ("parts.other=0.5", False),
        ("source=rollog/verifier-0", True),
        ("time_s>=1000", True),
        ("nothing=1", False),
        ("nothing!=1", False),
        ("domain<s", True),
        ("domain<5", False),
        ("value<many", False),
    ],
)
def test_where_compares_one_field_with_one_value(condition: str, holds: bool) -> None:
    assert parse_where(condition).holds(event(reward())) is holds


def test_where_looks_into_nested_records_and_at_missing_values() -> None:
    assert parse_where("outcome.status=nonzero").holds(event(execution()))
    assert parse_where("value=none").holds(event(reward(value=None, invalid_reason="deadline")))
    assert not parse_where("value>0").holds(event(reward(value=None, invalid_reason="deadline")))


@pytest.mark.parametrize("text", ["", "domain", "=x", "a b=c", "__import__('os')=1", "f(x)>1"])
def test_where_is_no_language(text: str) -> None:
    with pytest.raises(ConfigError, match="--where"):
        parse_where(text)


def test_the_limit_counts_what_matches() -> None:
    events = [event(reward(sample=index, value=index / 4), index) for index in range(4)]

    found = list(matching(iter(events), Query(topic="rewards", conditions=(parse_where("value>0"),), limit=2)))

    assert [one.id for one in found] == ["e1", "e2"]


def test_a_line_shows_packed_arrays_in_brief_and_cuts_long_text() -> None:
    line = line_of(event(turn(text="x" * 500)))

    assert "\n" not in line
    assert "token_ids=[8 9 1] 3" in line
    assert "rewards[1]@0" in line
    assert "500 characters" in line


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in line_of(event(turn(text="\x1b[2Jgone\n")))


def test_json_is_whole_and_its_arrays_are_numbers() -> None:
    tree = json.loads(json_of(event(turn())))

    assert tree["record"]["token_ids"] == [8, 9, 1]
    assert tree["record"]["logprobs"] == [-0.5, -0.25, -2.0]
    assert tree["record"]["action"]["code"] == "print(f(3,4))"
    assert tree["position"] == "rewards[1]@0"


def test_a_tap_reads_past_events_and_goes_on_after_what_it_cannot_decode(
    broker: str, namespace: str, tmp_path: Path
) -> None:
    log = LogSettings(bootstrap=broker, namespace=namespace, partitions=1)
    create_topics(log)
    foreign = Producer({"bootstrap.servers": broker})
    foreign.produce(f"{namespace}rewards", key=b"x", value=b"\xc1")
    assert foreign.flush(15) == 0
    publisher = Publisher(log, source="rollog/test", blob_dir=tmp_path)
    rewards = [reward(sample=index, value=index / 4) for index in range(4)]
    publisher.send_all(
        [new_event(one, id=f"r{one.sample}", key=TASK_ID, source="rollog/test") for one in rewards],
    )
    publisher.close()
    out = io.StringIO()

    query = Query(topic="rewards", conditions=(parse_where("value>=0.5"),))
    print_events(log, query, blob_dir=tmp_path, as_json=True, out=out)

    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert "undecodable" in lines[0]
    assert [line["record"]["value"] for line in lines[1:]] == [0.5, 0.75]


def test_following_ends_at_the_limit(broker: str, namespace: str, tmp_path: Path) -> None:
    log = LogSettings(bootstrap=broker, namespace=namespace)
    create_topics(log)
    publisher = Publisher(log, source="rollog/test", blob_dir=tmp_path)
    publisher.send_all([new_event(reward(), id="r0", key=TASK_ID, source="rollog/test")])
    publisher.close()
    out = io.StringIO()

    print_events(log, Query(topic="rewards", follow=True, limit=1), blob_dir=tmp_path, as_json=False, out=out)

    assert "RewardScored" in out.getvalue()
    assert "value=0.5" in out.getvalue()


def test_an_unknown_topic_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="known are"):
        print_events(
            LogSettings(bootstrap="127.0.0.1:1"),
            Query(topic="reward"),
            blob_dir=tmp_path,
            as_json=False,
            out=io.StringIO(),
        )
